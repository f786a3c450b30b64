// Makes a data set with millions of labels that can be learnt, shaped like Amazon-3M: products as texts,
// labels are products bought together with them.
//   g++ -O2 -std=c++20 -o make_catalogue bench/make_catalogue.cpp
//   ./make_catalogue FOLDER [LABELS 2812281] [TRAINING_TEXTS 1717899] [TEST_TEXTS 742507] [WORDS 30] [NICHE
//   128]
// Amazon-3M's published numbers are the defaults: labels, texts, and 36.2 labels per text (at most 100).
// Fewer texts keep the labels per text, so a label has fewer of them. Fewer niches have fewer words, so that
// they are as hard to tell apart.
//
// Where the structure comes from: labels are in niches of NICHE, niches in shelves of 64, shelves in 64
// departments or more. Larger niches are fewer, so that a training sees each of them more often; its most
// popular label has the same share of its texts at any size. A text belongs to a niche. Its words are drawn
// from the niche's 6, the shelf's 8 and the department's 8 words, which other niches, shelves and departments
// have too, so that only several words together name a niche; two of five words are noise by Zipf's law. Its
// labels are, for a share of 0.5, those of its niche (popular ones more often), for 0.2 those of its shelf,
// and otherwise anything by Zipf's law from rank 1000 on. So frequencies have a long tail, and no model can
// know all labels: the program prints the scores of one that knows every text's niche and all popularities.
//
// What it cannot show: anything about language (words mean nothing, so a pretrained encoder has no
// advantage), labels with texts of their own, or how labels of real products depend on each other.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using Int = std::int64_t;
using Word = std::uint64_t;

Word mixed(Word z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
struct Random {  // splitmix64
    Word state;
    Word next() { return mixed(state += 0x9e3779b97f4a7c15u); }
    double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
};

constexpr Int kUsualNiche = 128, kShelf = 64, kDepartment = 64, kMostLabels = 100;
// Different words per niche: with niches of the usual size those of Amazon-3M (337,067 features, 2,812,281
// labels), so that a word belongs to as many niches at any size.
constexpr double kWordsPerNiche = kUsualNiche * 337067.0 / 2812281;
constexpr double kOwn = 0.5, kShelfShare = 0.2;
// Of places by popularity: place = size * u^skew. Of usual niches.
constexpr double kSkew = 1.5, kShelfSkew = 3;

std::string word_of(Word number) {
    static const char* kParts[] = {"ba",  "re", "mi",  "to", "lan", "ker",
                                   "sur", "vi", "pol", "ne", "tra", "gus"};
    std::string made;
    for (Word left = number + 12; left > 0; left /= 12) made += kParts[left % 12];
    return made;
}
// Word i of a group: any of the vocabulary's.
Word word_of_group(int level, Int group, Int i, Int vocabulary) {
    return mixed(static_cast<Word>(level) << 60 ^ static_cast<Word>(group) << 8 ^ static_cast<Word>(i)) %
           static_cast<Word>(vocabulary);
}

struct Catalogue {
    Int labels, niche_size, niches, vocabulary, step;
    double skew;  // by which the first place of a niche has the same share at any size
    Catalogue(Int l, Int in_niche)
        : labels(l),
          niche_size(in_niche),
          niches((l + in_niche - 1) / in_niche),
          vocabulary(std::max<Int>(
              1000, std::llround(kWordsPerNiche * static_cast<double>(l) / static_cast<double>(in_niche)))),
          step(l / 2 + 1),
          skew(std::log(static_cast<double>(in_niche)) / std::log(static_cast<double>(kUsualNiche))) {
        const auto divisor = [](Int a, Int b) {
            while (b != 0) std::swap(a %= b, b);
            return a;
        };
        while (divisor(step, labels) != 1) ++step;
    }
    // Places of the catalogue are numbered niche by niche; labels in a fixed other order.
    Int label_at(Int place) const {
        return static_cast<Int>(static_cast<unsigned __int128>(place) * step % labels);
    }
    Int size_of(Int niche) const { return std::min(niche_size, labels - niche * niche_size); }
    Int place_in(Int niche, double u, double usual_skew) const {
        const Int size = size_of(niche);
        const double place = static_cast<double>(size) * std::pow(u, usual_skew * skew);
        return niche * niche_size + std::min(size - 1, static_cast<Int>(place));
    }
    Int any_place(double u) const {  // by Zipf's law, popular ones all over the catalogue
        constexpr double kFirst = 1000;
        const auto rank = static_cast<Word>(
            kFirst * (std::pow(std::max(static_cast<double>(labels) / kFirst, 2.0), u) - 0.999));
        return static_cast<Int>(mixed(rank) % static_cast<Word>(labels));
    }
};

struct Row {
    Int niche;
    std::vector<Int> labels;
    std::string text;
};

Row make_row(const Catalogue& catalogue, Int number, Int words, bool test) {
    Random random{mixed(static_cast<Word>(number) * 2 + (test ? 1 : 0)) ^ 42};
    Row row;
    row.niche = static_cast<Int>(random.next() % static_cast<Word>(catalogue.niches));
    const Int shelf = row.niche / kShelf, department = shelf / kDepartment;
    // One of the first `count` words of a group.
    const auto group_word = [&](int level, Int group, Word count) {
        return word_of_group(level, group, static_cast<Int>(random.next() % count), catalogue.vocabulary);
    };
    for (Int i = 0; i < words; ++i) {
        const double u = random.uniform();
        Word word;
        if (u < 0.3)
            word = group_word(1, row.niche, 6);
        else if (u < 0.45)
            word = group_word(2, shelf, 8);
        else if (u < 0.6)
            word = group_word(3, department, 8);
        else
            word =
                static_cast<Word>(std::pow(static_cast<double>(catalogue.vocabulary), random.uniform())) - 1;
        if (i > 0) row.text += ' ';
        row.text += word_of(word);
    }
    // Drawn labels: an exponential number, cut at 100, of which repetitions are one label.
    const auto draws = static_cast<Int>(1 - 42.0 * std::log(1 - random.uniform()));
    for (Int i = 0; i < std::min(draws, kMostLabels * 3); ++i) {
        const double u = random.uniform(), v = random.uniform();
        Int place;
        if (u < kOwn) {
            place = catalogue.place_in(row.niche, v, kSkew);
        } else if (u < kOwn + kShelfShare) {
            const Int first = shelf * kShelf, last = std::min(first + kShelf, catalogue.niches);
            const Int niche = first + static_cast<Int>(random.next() % static_cast<Word>(last - first));
            place = catalogue.place_in(niche, v, kShelfSkew);
        } else {
            place = catalogue.any_place(v);
        }
        row.labels.push_back(catalogue.label_at(place));
    }
    std::sort(row.labels.begin(), row.labels.end());
    row.labels.erase(std::unique(row.labels.begin(), row.labels.end()), row.labels.end());
    if (row.labels.size() > kMostLabels) {
        for (Int i = 0; i < kMostLabels; ++i)
            std::swap(row.labels[i], row.labels[i + random.next() % (row.labels.size() - i)]);
        row.labels.resize(kMostLabels);
        std::sort(row.labels.begin(), row.labels.end());
    }
    return row;
}

std::FILE* opened(const std::string& path) {
    std::FILE* file = std::fopen(path.c_str(), "wb");
    if (file == nullptr) {
        std::perror(path.c_str());
        std::exit(1);
    }
    return file;
}

// Writes a split and returns its pairs of a text and a label.
Int write_split(const Catalogue& catalogue, const std::string& folder, Int rows, Int words, bool test,
                std::vector<std::uint32_t>& counts) {
    const std::string name = folder + (test ? "/tst_X" : "/trn_X");
    std::FILE *texts = opened(name + ".txt"), *labels = opened(name + "_Y.txt");
    std::fprintf(labels, "%lld %lld\n", static_cast<long long>(rows),
                 static_cast<long long>(catalogue.labels));
    Int pairs = 0;
    std::string line;
    for (Int i = 0; i < rows; ++i) {
        const Row row = make_row(catalogue, i, words, test);
        line = row.text + '\n';
        std::fwrite(line.data(), 1, line.size(), texts);
        line.clear();
        for (const Int label : row.labels) {
            line += (line.empty() ? "" : " ") + std::to_string(label) + ":1";
            if (!test) ++counts[static_cast<std::size_t>(label)];
        }
        line += '\n';
        std::fwrite(line.data(), 1, line.size(), labels);
        pairs += static_cast<Int>(row.labels.size());
    }
    std::fclose(texts);
    std::fclose(labels);
    return pairs;
}

// P@1, P@3, P@5 of a model that knows the niche of a text: its first places, and the most popular of all.
void print_ceiling(const Catalogue& catalogue, Int rows) {
    Int found[5] = {};
    for (Int i = 0; i < rows; ++i) {
        const Row row = make_row(catalogue, i, 0, true);
        for (Int k = 0; k < 5; ++k)
            found[k] += std::binary_search(row.labels.begin(), row.labels.end(),
                                           catalogue.label_at(row.niche * catalogue.niche_size + k));
    }
    const auto percent = [&](Int k) {
        Int sum = 0;
        for (Int i = 0; i < k; ++i) sum += found[i];
        return 100.0 * static_cast<double>(sum) / static_cast<double>(rows * k);
    };
    std::printf("P@1, P@3, P@5 if every text's niche is known: %.2f %.2f %.2f\n", percent(1), percent(3),
                percent(5));
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        std::fprintf(stderr,
                     "make_catalogue FOLDER [LABELS] [TRAINING_TEXTS] [TEST_TEXTS] [WORDS] [NICHE]\n");
        return 2;
    }
    const auto number = [&](int i, Int otherwise) { return argc > i ? std::atoll(argv[i]) : otherwise; };
    const Catalogue catalogue(number(2, 2812281), number(6, kUsualNiche));
    const Int train = number(3, 1717899), test = number(4, 742507), words = number(5, 30);
    std::vector<std::uint32_t> counts(static_cast<std::size_t>(catalogue.labels));
    const Int pairs = write_split(catalogue, argv[1], train, words, false, counts);
    write_split(catalogue, argv[1], test, words, true, counts);
    const auto unseen = std::count(counts.begin(), counts.end(), 0u);
    std::sort(counts.rbegin(), counts.rend());
    const auto at = [&](double share) {
        return counts[static_cast<std::size_t>(share * static_cast<double>(catalogue.labels))];
    };
    std::printf("%lld labels (%lld of them in no training text), %lld training texts with %.2f labels each\n",
                static_cast<long long>(catalogue.labels), static_cast<long long>(unseen),
                static_cast<long long>(train), static_cast<double>(pairs) / static_cast<double>(train));
    std::printf(
        "training texts of a label: most %u, 1 in 1000 above %u, 1 in 100 above %u, 1 in 10 above %u, median "
        "%u\n",
        counts[0], at(0.001), at(0.01), at(0.1), at(0.5));
    print_ceiling(catalogue, std::min<Int>(test, 20000));
    return 0;
}
