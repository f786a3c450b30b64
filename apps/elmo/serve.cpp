// elmo serve: runs behind HTTP, until a signal ends it.
#include "elmo/serve.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "elmo/elmo.h"
#include "elmo/messages.h"
#include "output.h"
#include "verbs.h"

namespace elmo::cli {
namespace {

constexpr const char* kTokens = "ELMO_TOKENS";

template <typename T>
T number_of(const Invocation& call, const char* flag) {
    const std::string& text = call.extra.at(flag);
    T number{};
    const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (status != std::errc() || rest != text.data() + text.size())
        usage_error(serve_verb(), fmt::format("--{}: expected a number, found '{}'", flag, quoted(text)));
    return number;
}

// Tokens come from a file or the environment: command lines can be read by every user of a machine.
std::vector<std::string> tokens_of(const Context& context, const std::string& file) {
    std::vector<std::string> tokens;
    const auto add_words = [&](const std::string& text) {
        std::size_t at = 0;
        while ((at = text.find_first_not_of(" \t\r\n,", at)) != std::string::npos) {
            const std::size_t end = std::min(text.find_first_of(" \t\r\n,", at), text.size());
            tokens.push_back(text.substr(at, end - at));
            at = end;
        }
    };
    if (const char* given = std::getenv(kTokens)) add_words(given);
    if (file.empty()) return tokens;
    std::ifstream in(file);
    if (!in) throw DataError(fmt::format("{}: expected a file of tokens, cannot be read", file));
    const std::size_t before = tokens.size();
    for (std::string line; std::getline(in, line);)
        if (!line.starts_with('#')) add_words(line);
    if (tokens.size() == before) throw DataError(fmt::format("{}: expected tokens, found none", file));
    using std::filesystem::perms;
    std::error_code error;
    const auto status = std::filesystem::status(file, error);
    if (!error && status.type() == std::filesystem::file_type::regular &&
        (status.permissions() & (perms::group_read | perms::others_read)) != perms::none)
        context.warning(
            fmt::format("{}: other users of this machine can read the tokens (mode {:o}); chmod "
                        "600 closes it",
                        file, static_cast<unsigned>(status.permissions() & perms::all)));
    return tokens;
}

// A socket per client: as many as the machine allows.
void allow_descriptors() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
}

ServeOptions options_of(const Invocation& call) {
    ServeOptions options;
    options.host = call.extra.at("host");
    options.port = number_of<int>(call, "port");
    options.tokens = tokens_of(call.context, call.extra.at("token-file"));
    options.connections = number_of<std::int64_t>(call, "connections");
    options.queue = number_of<std::int64_t>(call, "queue");
    options.max_texts = number_of<std::int64_t>(call, "max-texts");
    options.max_body = number_of<std::int64_t>(call, "max-body");
    options.deadline = number_of<double>(call, "deadline");
    if (call.extra.at("no-log") != "true")
        options.log = [](std::string_view line) {
            std::fwrite(line.data(), 1, line.size(), stdout);
            std::fputc('\n', stdout);
            std::fflush(stdout);
        };
    return options;
}

// Until it is told to end. A second signal ends at once.
void wait_for_end(const Invocation& call, Server& server, const sigset_t& signals) {
    const bool terminal = ::isatty(STDIN_FILENO) != 0;  // which was closed, if SIGHUP comes
    for (;;) {
        int signal = 0;
        if (sigwait(&signals, &signal) != 0) continue;
        if (signal != SIGHUP || terminal) break;
        server.reload();
    }
    call.context.info("stopping: requests that have come are answered; once more stops at once");
    std::thread([signals] {
        for (int signal = SIGHUP; signal == SIGHUP;) sigwait(&signals, &signal);
        ::_exit(130);
    }).detach();
    server.stop();
}

void run_serve(Invocation& call) {
    allow_descriptors();
    const ServeOptions options = options_of(call);
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before there are threads, which take it over
    Server server(call.context, call.words, call.config, options);
    if (options.tokens.empty() && options.host != "localhost" && !options.host.starts_with("127.") &&
        options.host != "::1")
        call.context.warning(fmt::format(
            "everybody who reaches {} may ask: no tokens are given (--token-file)", options.host));
    const bool is_ipv6 = options.host.find(':') != std::string::npos;
    call.context.info(fmt::format("serving at http://{}:{}/",
                                  is_ipv6 ? "[" + options.host + "]" : options.host, server.port()));
    write_json(FieldGroup{[&](auto&& visit) {
        visit("event", "ready");
        visit("host", options.host);
        visit("port", server.port());
    }});
    flush_stdout();
    wait_for_end(call, server, signals);
}

}  // namespace

Verb serve_verb() {
    const ServeOptions usual;
    return {
        "serve",
        'v',
        "Answer texts over HTTP, with a page for browsers",
        "RUN... [options]",
        {{"RUN", "Folder that elmo train wrote; of several, requests name one by the name of its folder"}},
        1,
        1 << 10,
        false,
        {{"host", usual.host, "Address or name to listen at; 0.0.0.0: every address of this machine"},
         {"port", std::to_string(usual.port), "Port to listen at; 0: any that is free"},
         {"token-file", "",
          "File of tokens, one per line: clients must show one. Also from the environment, as ELMO_TOKENS"},
         {"connections", std::to_string(usual.connections), "Connections at once; more wait to be accepted"},
         {"queue", std::to_string(usual.queue),
          "Texts of a run that may wait; above, requests get status 429"},
         {"max-texts", std::to_string(usual.max_texts), "Texts of a request, at most"},
         {"max-body", std::to_string(usual.max_body), "Bytes of a request, at most"},
         {"deadline", fmt::format("{}", usual.deadline),
          "Seconds that a request may wait for its turn; then it gets status 503"},
         {"no-log", "", "No line per request on standard output", true}},
        {{"elmo serve runs/first", "At http://127.0.0.1:8080/: a page, /v1/predict and more"},
         {"curl -d '{\"texts\": [\"a small domesticated feline\"]}' localhost:8080/v1/predict", "A request"},
         {"elmo serve runs/a runs/b --host 0.0.0.0 --token-file tokens.txt",
          "Two runs, for other machines, which must show a token"}},
        "Texts that come at the same time are answered as one batch. A new checkpoint in the folder of a run "
        "is taken "
        "within a second or two, and at once after SIGHUP; no request is dropped. SIGTERM and Ctrl-C end the "
        "server "
        "after it has answered what it accepted. Standard output gets one line of JSON per request, without "
        "its texts. "
        "docs/serving.md describes the requests.",
        run_serve};
}

}  // namespace elmo::cli
