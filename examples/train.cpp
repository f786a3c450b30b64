// Trains a classifier: train DATA RUN [KEY=VALUE...]
//
// DATA is anything that `elmo train` reads; keys are those of recipes and of docs/cli.md. Progress is one
// line per report instead of the bar that `elmo` draws.
#include <elmo/elmo.h>

#include <cstdio>
#include <string>

int main(int argc, char** argv) try {
    if (argc < 3) throw elmo::ConfigError("usage: train DATA RUN [KEY=VALUE...]");
    elmo::Config config;
    config.data = argv[1];
    config.out = argv[2];
    for (int i = 3; i < argc; ++i) {
        const std::string word = argv[i];
        const std::size_t equals = std::min(word.find('='), word.size() - 1);
        elmo::set_option(config, word.substr(0, equals), word.substr(equals + 1), "argument");
    }

    elmo::Context::Settings settings;
    settings.sinks.message = [](elmo::Severity severity, std::string_view line) {
        if (severity == elmo::Severity::kWarning)
            std::fprintf(stderr, "warning: %.*s\n", static_cast<int>(line.size()), line.data());
    };
    settings.sinks.progress = [](const elmo::ProgressReport& report) {
        std::fprintf(stderr, "%.*s: %lld of %lld\n", static_cast<int>(report.title.size()),
                     report.title.data(), static_cast<long long>(report.done),
                     static_cast<long long>(report.total));
    };
    settings.sinks.progress_every = std::chrono::seconds(1);

    const elmo::TrainResult result = elmo::train(elmo::Context(settings), config);
    std::printf("%lld steps, last loss %.4f, %.0f texts/s\n", static_cast<long long>(result.steps),
                result.last_loss, result.texts_per_second);
    return 0;
} catch (const elmo::Error& error) {
    std::fprintf(stderr, "train: %s\n", error.what());
    return 1;
}
