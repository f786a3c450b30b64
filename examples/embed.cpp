// Finds, for each line of standard input, the other line whose text vector is nearest by angle: embed RUN <
// texts
#include <elmo/elmo.h>

#include <cmath>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

namespace {

double cosine(std::span<const float> a, std::span<const float> b) {
    double ab = 0, aa = 0, bb = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        ab += static_cast<double>(a[i]) * b[i];
        aa += static_cast<double>(a[i]) * a[i];
        bb += static_cast<double>(b[i]) * b[i];
    }
    return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc != 2) throw elmo::ConfigError("usage: embed RUN < texts");
    std::vector<std::string> texts;
    for (std::string line; std::getline(std::cin, line);) texts.push_back(line);

    elmo::Predictor predictor(elmo::Context(), argv[1], elmo::Config());
    const elmo::Embeddings vectors = predictor.embed(texts);
    for (std::int64_t i = 0; i < vectors.rows; ++i) {
        std::int64_t nearest = -1;
        double best = -2;
        for (std::int64_t j = 0; j < vectors.rows; ++j) {
            const double near = i == j ? -2 : cosine(vectors.row(i), vectors.row(j));
            if (near > best) best = near, nearest = j;
        }
        if (nearest >= 0)
            std::printf("%s  %.3f  %s\n", texts[static_cast<std::size_t>(i)].c_str(), best,
                        texts[static_cast<std::size_t>(nearest)].c_str());
    }
    return 0;
} catch (const elmo::Error& error) {
    std::fprintf(stderr, "embed: %s\n", error.what());
    return 1;
}
