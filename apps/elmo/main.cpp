// The program `elmo`: finds the verb, runs it, and turns errors into one line and an exit status.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <new>
#include <system_error>

#include "elmo/elmo.h"
#include "elmo/messages.h"
#include "help.h"
#include "launch.h"
#include "option_reasons.h"
#include "output.h"
#include "synonyms.h"
#include "verbs.h"

namespace elmo::cli {
namespace {

constexpr int kDone = 0, kFailed = 1, kWrongUsage = 2, kInterrupted = 130;

std::vector<Verb> all_verbs() {
    return {train_verb(),   tune_verb(),   eval_verb(),     calibrate_verb(), predict_verb(),
            explain_verb(), report_verb(), index_verb(),    export_verb(),    serve_verb(),
            labels_verb(),  refine_verb(), plan_verb(),     bench_verb(),     study_verb(),
            data_verb(),    cache_verb(),  tokenize_verb(), inspect_verb()};
}

// elmo help train all
HelpDepth help_depth(int argc, char** argv) {
    return argc > 3 && std::string_view(argv[3]) == "all" ? HelpDepth::kAll : HelpDepth::kCommon;
}

void run(int argc, char** argv) {
    const std::vector<Verb> verbs = all_verbs();
    std::string word = argc > 1 ? argv[1] : "--help";
    if (!may_take_part(word)) return;
    if (word == "help" && argc > 2) {  // elmo help train
        word = argv[2];
        for (const Verb& verb : verbs)
            if (verb.name == word) return write_stdout(help_text(verb, help_depth(argc, argv)));
    }
    if (word == "--help" || word == "-h" || word == "help") {
        if (argc > 1) return write_stdout(overview_text(verbs));
        throw ConfigError("a verb is missing; see 'elmo --help'");
    }
    if (word == "--version") return write_stdout(fmt::format("elmo {}\n", version()));
    if (word == "help-markdown") return write_stdout(markdown(verbs));
    for (const Verb& verb : verbs) {
        if (verb.name != word) continue;
        Invocation invocation;
        if (!parse(verb, argc - 1, argv + 1, invocation)) return;
        if (!invocation.explain) return verb.run(invocation);
        return is_first_rank() ? print_explanation(verb, invocation) : void();
    }
    std::vector<std::string> known = {"--help", "--version"};
    for (const Verb& verb : verbs) known.push_back(verb.name);
    const std::string meant = verb_meant_by(word);
    throw ConfigError(fmt::format("unknown {} '{}'{}; see 'elmo --help'", word[0] == '-' ? "flag" : "verb",
                                  quoted(word), meant.empty() ? did_you_mean(word, known) : meant));
}

int fail(int status, const char* message) {
    std::fflush(stdout);
    // If standard error cannot be written, only the status is left: fmt::print would throw here.
    fail_launch(status, message);
    const bool terminal = ::isatty(STDERR_FILENO) != 0;
    std::fprintf(stderr, "elmo: error: %s\n", terminal ? for_terminal(message).c_str() : message);
    return status;
}

int guarded_main(int argc, char** argv) {
    try {
        run(argc, argv);
        flush_stdout();
        finish_launch();
        return kDone;
    } catch (const OutputClosed&) {
        fail_launch(kDone, "");  // the other ranks need not go on
        return kDone;
    } catch (const ConfigError& error) {
        return fail(kWrongUsage, error.what());
    } catch (const Interrupted& error) {
        return fail(kInterrupted, error.what());
    } catch (const std::bad_alloc&) {
        return fail(kFailed, "out of memory; 'elmo plan' shows what a run needs");
    } catch (const std::filesystem::filesystem_error& error) {
        return fail(kFailed,
                    error.path1().empty()
                        ? error.what()
                        : fmt::format("{}: {}", error.path1().string(), error.code().message()).c_str());
    } catch (const std::system_error& error) {
        if (error.code() != std::errc::resource_unavailable_try_again) return fail(kFailed, error.what());
        return fail(
            kFailed,
            "cannot start a thread; raise the limit of processes or of memory (ulimit -u, ulimit -v), or "
            "give --threads 1");
    } catch (const std::exception& error) {
        return fail(kFailed, error.what());
    }
}

// The next file opened would get the number of a closed standard descriptor, and messages would be written
// into that file. Standard input is opened for writing and standard output for reading, so their use fails
// instead of losing something.
void hold_standard_descriptors() {
    constexpr int kModes[] = {O_WRONLY, O_RDONLY, O_WRONLY};
    for (int descriptor = 0; descriptor < 3; ++descriptor)
        if (::fcntl(descriptor, F_GETFD) == -1 && errno == EBADF &&
            ::open("/dev/null", kModes[descriptor]) != descriptor)  // the lowest number that is free
            ::_exit(kFailed);
}

// Files are mapped. If another program truncates one while it is read, touching the missing part raises
// SIGBUS.
void on_lost_file(int) {
    constexpr std::string_view kMessage =
        "elmo: error: a file that was being read was cut short by another program, or its disk fails\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kMessage.data(), kMessage.size());
    ::_exit(kFailed);
}

// oneDNN writes the code that it makes to address 0 where it gets no memory for it (gemm.cpp asks for room
// first, but another thread or program may take it). Any other invalid access ends the program as it always
// does.
void on_null_page(int number, siginfo_t* info, void*) {
    constexpr std::uintptr_t kPage = 4096;
    if (reinterpret_cast<std::uintptr_t>(info->si_addr) >= kPage) {
        std::signal(number, SIG_DFL);
        return;  // the same access again
    }
    constexpr std::string_view kMessage =
        "elmo: error: out of memory ('elmo plan' shows what a run needs), or a fault of elmo: address 0 was "
        "used\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kMessage.data(), kMessage.size());
    ::_exit(kFailed);
}

void watch_null_page() {
    struct sigaction before {};
    struct sigaction after {};
    after.sa_sigaction = on_null_page;
    after.sa_flags = SA_SIGINFO;
    // A sanitizer has its own.
    if (::sigaction(SIGSEGV, nullptr, &before) == 0 && before.sa_handler == SIG_DFL)
        ::sigaction(SIGSEGV, &after, nullptr);
}

}  // namespace
}  // namespace elmo::cli

int main(int argc, char** argv) {
    elmo::cli::hold_standard_descriptors();
    std::signal(SIGPIPE, SIG_IGN);  // a reader that has gone is seen as a failed write
    std::signal(SIGXFSZ, SIG_IGN);  // so is a limit on the size of files
    std::signal(SIGBUS, elmo::cli::on_lost_file);
    elmo::cli::watch_null_page();
    return elmo::cli::guarded_main(argc, argv);
}
