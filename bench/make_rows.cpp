// Makes a large plain data set for measuring imports: lines 'text<TAB>label,label,...'.
//   g++ -O2 -o make_rows bench/make_rows.cpp && ./make_rows ROWS NEW_LABELS_A_ROW_PER_1000 > rows.tsv
// A row has about 65 words out of 50,000 (frequent ones more often) and four labels: some new ones, seen in
// only that row unless drawn again, the others drawn from those seen before.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

std::uint64_t state = 42;
std::uint64_t next() {  // splitmix64
    std::uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
double uniform() {
    return static_cast<double>(next() >> 11) * 0x1p-53;
}

std::string word() {
    static const char* kParts[] = {"ba",  "re", "mi",  "to", "lan", "ker",
                                   "sur", "vi", "pol", "ne", "tra", "gus"};
    std::string made;
    for (auto parts = 2 + next() % 3; parts > 0; --parts) made += kParts[next() % 12];
    return made;
}

}  // namespace

int main(int argc, char** argv) {
    const long long rows = argc > 1 ? std::atoll(argv[1]) : 1000;
    const auto fresh = static_cast<std::uint64_t>(argc > 2 ? std::atoll(argv[2]) : 900);
    std::vector<std::string> words;
    for (int i = 0; i < 50000; ++i) words.push_back(word());
    std::string line;
    std::uint64_t labels = 0;
    for (long long row = 0; row < rows; ++row) {
        line.clear();
        for (auto left = 50 + next() % 30; left > 0; --left) {
            line += words[static_cast<std::size_t>(std::pow(50000.0, uniform())) - 1];
            line += left > 1 ? ' ' : '\t';
        }
        std::uint64_t last = 0;
        for (int i = 0; i < 4; ++i) {
            const std::uint64_t label = labels == 0 || next() % 4000 < fresh ? ++labels : 1 + next() % labels;
            if (label == last) continue;
            if (last != 0) line += ',';
            line += "label of " + words[label % 50000] + " " + std::to_string(label);
            last = label;
        }
        line += '\n';
        std::fwrite(line.data(), 1, line.size(), stdout);
    }
    return 0;
}
