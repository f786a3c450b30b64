// Answers each line of standard input with its three best labels: predict RUN < texts
#include <elmo/elmo.h>

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

int main(int argc, char** argv) try {
    if (argc != 2) throw elmo::ConfigError("usage: predict RUN < texts");
    std::vector<std::string> texts;
    for (std::string line; std::getline(std::cin, line);) texts.push_back(line);

    elmo::Config config;
    config.top = 3;
    elmo::Predictor predictor(elmo::Context(), argv[1], config);
    const auto answers = predictor.predict(texts);
    for (std::size_t i = 0; i < texts.size(); ++i) {
        std::printf("%s\n", texts[i].c_str());
        for (const elmo::Prediction& answer : answers[i])
            std::printf("  %.4f  %s\n", static_cast<double>(answer.probability), answer.name.c_str());
    }
    return 0;
} catch (const elmo::Error& error) {
    std::fprintf(stderr, "predict: %s\n", error.what());
    return 1;
}
