// Candidates by the sketch, in three passes: all labels by their first numbers, those that this lets through
// by all numbers, and the best of them in order. Sums are of whole numbers, so results do not depend on how
// they are computed.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/clones.h"
#include "base/parallel.h"
#include "rank/index/label_sketch.h"

namespace elmo {
namespace {

constexpr std::int64_t kLanes = LabelSketch::kGroup, kBlockGroups = 64;
// More than there are cores, mostly, so that a thread that loses its core holds up little.
constexpr std::int64_t kSlices = 64;
// Labels whose other numbers are read: so many per candidate, and at least so many.
constexpr std::int64_t kPassedPerCandidate = 32, kFewestPassed = 4096;
constexpr std::int64_t kWordsAtOnce = 4;  // 8 pairs of products of at most 15 times 127 fit 16 bits
constexpr int kLargestQuery = 127;
constexpr float kNone = -std::numeric_limits<float>::infinity();

// A text as the scan takes it: what the low and the high bits of each byte of a label are multiplied by.
struct SketchedText {
    std::vector<std::int8_t> low, high;
    float scale = 0;
    std::int32_t first_zero = 0, zero = 0;  // what the codes' own zero adds, of the first bytes and of all
};

ELMO_CLONES float dot_of(const float* a, const float* b, std::int64_t count) {
    constexpr std::int64_t kSums = 16;
    float sums[kSums] = {};
    for (std::int64_t i = 0; i + kSums <= count; i += kSums)
        for (std::int64_t lane = 0; lane < kSums; ++lane) sums[lane] += a[i + lane] * b[i + lane];
    float sum = 0;
    for (std::int64_t i = count / kSums * kSums; i < count; ++i) sum += a[i] * b[i];
    for (const float part : sums) sum += part;
    return sum;
}

SketchedText sketch_text(const LabelSketch& sketch, std::span<const Bf16> text) {
    std::vector<float> centred;
    for (std::size_t d = 0; d < text.size(); ++d) centred.push_back(to_float(text[d]) - sketch.centre[d]);
    std::vector<float> values;
    float largest = 0;
    for (std::int64_t j = 0; j < sketch.dims; ++j) {
        values.push_back(dot_of(&sketch.project[static_cast<std::size_t>(j * sketch.width)], centred.data(),
                                sketch.width));
        if (std::isfinite(values.back())) largest = std::max(largest, std::abs(values.back()));
    }
    SketchedText result;
    result.low.resize(static_cast<std::size_t>(sketch.bytes()));
    result.high.resize(result.low.size());
    result.scale = largest / kLargestQuery;
    const float inverse = result.scale > 0 ? 1 / result.scale : 0;
    for (std::int64_t j = 0; j < sketch.dims; ++j) {
        const float scaled = values[static_cast<std::size_t>(j)] * inverse;
        const auto number = static_cast<std::int8_t>(
            std::isfinite(scaled) ? std::clamp(std::nearbyint(scaled), -127.0f, 127.0f) : 0.0f);
        const std::int64_t byte = LabelSketch::byte_of(j);
        (LabelSketch::is_high(j) ? result.high : result.low)[static_cast<std::size_t>(byte)] = number;
        result.zero += LabelSketch::kCodeZero * number;
        if (byte < sketch.first_bytes()) result.first_zero += LabelSketch::kCodeZero * number;
    }
    return result;
}

// The labels of a group: by their first bytes, the sums of products and the scores.
struct GroupScores {
    std::int32_t sums[kLanes];
    float scores[kLanes];
};

// What scores a group: its codes, and the scales and biases of its labels.
struct Group {
    const std::uint8_t* codes;
    std::int64_t words;
    const float *scales, *biases;
    std::int64_t labels;  // fewer in the last one
};

// Sets the scores of a group; returns a bit for each label whose score is at least so much.
ELMO_CLONES std::uint32_t score_group_plain(const Group& group, const SketchedText& text, float least,
                                            GroupScores& out) {
    const std::int8_t *const low = text.low.data(), *const high = text.high.data();
    for (std::int64_t i = 0; i < kLanes; ++i) out.sums[i] = 0;
    for (std::int64_t w = 0; w < group.words; ++w)
        for (std::int64_t i = 0; i < kLanes; ++i) {
            const std::uint8_t a = group.codes[(w * kLanes + i) * 2];
            const std::uint8_t b = group.codes[(w * kLanes + i) * 2 + 1];
            out.sums[i] += (a & 15) * low[2 * w] + (b & 15) * low[2 * w + 1] + (a >> 4) * high[2 * w] +
                           (b >> 4) * high[2 * w + 1];
        }
    std::uint32_t reached = 0;
    for (std::int64_t i = 0; i < group.labels; ++i) {
        out.scores[i] = group.biases[i] +
                        group.scales[i] * (text.scale * static_cast<float>(out.sums[i] - text.first_zero));
        reached |= static_cast<std::uint32_t>(out.scores[i] >= least) << i;
    }
    return reached;
}

#if defined(__x86_64__)
#if defined(__clang__)
#define ELMO_AVX2 __attribute__((target("avx2")))
#else
#define ELMO_AVX2 __attribute__((target("avx2"), optimize("O3")))  // twice as fast as with this room's -O1
#endif

// The same in AVX2, for a whole group: the compiler does not find the product that adds neighbours by itself.
ELMO_AVX2 std::uint32_t score_group_avx2(const Group& group, const SketchedText& text, float least,
                                         GroupScores& out) {
    const std::int8_t *const low = text.low.data(), *const high = text.high.data();
    const __m256i low_bits = _mm256_set1_epi8(15);
    __m256i total[4];
    for (__m256i& part : total) part = _mm256_set1_epi32(-text.first_zero);
    for (std::int64_t first = 0; first < group.words; first += kWordsAtOnce) {
        __m256i part0 = _mm256_setzero_si256(), part1 = part0;
        const std::int64_t last = std::min(first + kWordsAtOnce, group.words);
        for (std::int64_t w = first; w < last; ++w) {
            const auto* const row = reinterpret_cast<const __m256i*>(group.codes + w * kLanes * 2);
            const __m256i x0 = _mm256_loadu_si256(row), x1 = _mm256_loadu_si256(row + 1);
            std::int16_t a, b;
            std::memcpy(&a, low + 2 * w, sizeof a);
            std::memcpy(&b, high + 2 * w, sizeof b);
            const __m256i by_low = _mm256_set1_epi16(a), by_high = _mm256_set1_epi16(b);
            part0 = _mm256_add_epi16(part0, _mm256_maddubs_epi16(_mm256_and_si256(x0, low_bits), by_low));
            part1 = _mm256_add_epi16(part1, _mm256_maddubs_epi16(_mm256_and_si256(x1, low_bits), by_low));
            part0 = _mm256_add_epi16(
                part0, _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(x0, 4), low_bits), by_high));
            part1 = _mm256_add_epi16(
                part1, _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(x1, 4), low_bits), by_high));
        }
        total[0] = _mm256_add_epi32(total[0], _mm256_cvtepi16_epi32(_mm256_castsi256_si128(part0)));
        total[1] = _mm256_add_epi32(total[1], _mm256_cvtepi16_epi32(_mm256_extracti128_si256(part0, 1)));
        total[2] = _mm256_add_epi32(total[2], _mm256_cvtepi16_epi32(_mm256_castsi256_si128(part1)));
        total[3] = _mm256_add_epi32(total[3], _mm256_cvtepi16_epi32(_mm256_extracti128_si256(part1, 1)));
    }
    std::uint32_t reached = 0;
    for (int i = 0; i < 4; ++i) {
        const __m256 by_text = _mm256_mul_ps(_mm256_set1_ps(text.scale), _mm256_cvtepi32_ps(total[i]));
        const __m256 score = _mm256_add_ps(_mm256_loadu_ps(group.biases + 8 * i),
                                           _mm256_mul_ps(_mm256_loadu_ps(group.scales + 8 * i), by_text));
        const __m256 reaches = _mm256_cmp_ps(score, _mm256_set1_ps(least), _CMP_GE_OQ);
        reached |= static_cast<std::uint32_t>(_mm256_movemask_ps(reaches)) << (8 * i);
        _mm256_storeu_ps(out.scores + 8 * i, score);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.sums) + i,
                            _mm256_add_epi32(total[i], _mm256_set1_epi32(text.first_zero)));
    }
    return reached;
}
const bool kHasAvx2 = __builtin_cpu_supports("avx2");
#endif

std::uint32_t score_group(const Group& group, const SketchedText& text, float least, GroupScores& out) {
#if defined(__x86_64__)
    if (kHasAvx2 && group.labels == kLanes) return score_group_avx2(group, text, least, out);
#endif
    return score_group_plain(group, text, least, out);
}

ELMO_CLONES std::int32_t sum_of_rest(const std::uint8_t* codes, std::int64_t bytes, const std::int8_t* low,
                                     const std::int8_t* high) {
    std::int32_t sum = 0;
    for (std::int64_t b = 0; b < bytes; ++b) sum += (codes[b] & 15) * low[b] + (codes[b] >> 4) * high[b];
    return sum;
}

struct PassedLabel {
    ScoredLabel scored;
    std::int32_t sum = 0;  // of the first bytes
};

// Calls use(label, score, sum) for each label of these groups that reaches `least` by its first numbers, in
// order.
template <typename Use>
void scan_groups(const LabelSketch& sketch, const SketchedText& text, std::int64_t begin, std::int64_t end,
                 float least, Use&& use) {
    const std::int64_t words = sketch.first_bytes() / 2;
    GroupScores scored;
    for (std::int64_t number = begin; number < end; ++number) {
        const std::int64_t first = number * kLanes;
        const auto at = static_cast<std::size_t>(first);
        const Group group = {&sketch.codes[at * static_cast<std::size_t>(2 * words)], words,
                             &sketch.scales[at], &sketch.biases[at], std::min(kLanes, sketch.labels - first)};
        for (std::uint32_t reached = score_group(group, text, least, scored); reached != 0;
             reached &= reached - 1) {
            const int i = std::countr_zero(reached);
            use(first + i, scored.scores[i], scored.sums[i]);
        }
    }
}

std::int64_t blocks_of(const LabelSketch& sketch) {
    return (sketch.groups() + kBlockGroups - 1) / kBlockGroups;
}

// Of each text, a score that about a quarter more than `count` labels reach, by a sample of the groups; kNone
// where there are few. It saves ordering the others, and decides nothing.
std::vector<float> sampled_scores(const Context& context, const LabelSketch& sketch,
                                  std::span<const SketchedText> texts, std::int64_t count) {
    std::vector<float> least(texts.size(), kNone);
    const std::int64_t sampled = sketch.groups() / LabelSketch::kSampled;
    const std::int64_t place = count / LabelSketch::kSampled * 5 / 4 + 16;
    if (sampled * kLanes < 4 * place) return least;
    context.threads().parallel_for(static_cast<std::int64_t>(texts.size()), [&](std::int64_t i) {
        std::vector<float> scores;
        scores.reserve(static_cast<std::size_t>(sampled * kLanes));
        for (std::int64_t s = 0; s < sampled; ++s) {
            const std::int64_t group = LabelSketch::sampled_group(s);
            scan_groups(sketch, texts[static_cast<std::size_t>(i)], group, group + 1, kNone,
                        [&](std::int64_t, float score, std::int32_t) { scores.push_back(score); });
        }
        if (static_cast<std::int64_t>(scores.size()) < place) return;
        std::nth_element(scores.begin(), scores.begin() + (place - 1), scores.end(), std::greater<>());
        least[static_cast<std::size_t>(i)] = scores[static_cast<std::size_t>(place - 1)];
    });
    return least;
}

// Of each text, the labels with at least this score by their first numbers, in the order of labels. NaN is
// never among them.
std::vector<std::vector<PassedLabel>> labels_above(const Context& context, const LabelSketch& sketch,
                                                   std::span<const SketchedText> texts,
                                                   const std::vector<float>& least) {
    const std::int64_t blocks = blocks_of(sketch), slices = std::min(kSlices, blocks);
    std::vector<std::vector<std::vector<PassedLabel>>> found(
        static_cast<std::size_t>(slices), std::vector<std::vector<PassedLabel>>(texts.size()));
    context.threads().parallel_for(slices, [&](std::int64_t slice) {
        for (std::int64_t block = blocks * slice / slices; block < blocks * (slice + 1) / slices; ++block)
            for (std::size_t i = 0; i < texts.size(); ++i)  // a block is read once for all texts
                scan_groups(sketch, texts[i], block * kBlockGroups,
                            std::min((block + 1) * kBlockGroups, sketch.groups()), least[i],
                            [&, &of_text = found[static_cast<std::size_t>(slice)][i]](
                                std::int64_t label, float score, std::int32_t sum) {
                                of_text.push_back({{score, label}, sum});
                            });
    });
    for (std::size_t slice = 1; slice < found.size(); ++slice)
        for (std::size_t i = 0; i < texts.size(); ++i)
            found[0][i].insert(found[0][i].end(), found[slice][i].begin(), found[slice][i].end());
    return found.empty() ? std::vector<std::vector<PassedLabel>>(texts.size()) : std::move(found[0]);
}

bool passes_before(const PassedLabel& a, const PassedLabel& b) {
    return ranks_before(a.scored, b.scored);
}

// Keeps the `count` best, best first.
void keep_best(std::vector<PassedLabel>& labels, std::int64_t count) {
    const auto kept = labels.begin() + std::min(static_cast<std::int64_t>(labels.size()), count);
    std::partial_sort(labels.begin(), kept, labels.end(), passes_before);
    labels.erase(kept, labels.end());
}

// Scores the `passed` best by all their numbers.
void score_by_all(const Context& context, const LabelSketch& sketch, const SketchedText& text,
                  std::vector<PassedLabel>& labels, std::int64_t passed) {
    if (sketch.rest_bytes() == 0) return;
    if (static_cast<std::int64_t>(labels.size()) > passed) {
        std::nth_element(labels.begin(), labels.begin() + passed, labels.end(), passes_before);
        labels.resize(static_cast<std::size_t>(passed));
    }
    const std::int64_t bytes = sketch.rest_bytes();
    const auto first = static_cast<std::size_t>(sketch.first_bytes());
    context.threads().parallel_ranges(
        static_cast<std::int64_t>(labels.size()), 1024, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                PassedLabel& label = labels[static_cast<std::size_t>(i)];
                const auto at = static_cast<std::size_t>(label.scored.label);
                const std::int32_t sum =
                    label.sum + sum_of_rest(&sketch.rest[at * static_cast<std::size_t>(bytes)], bytes,
                                            &text.low[first], &text.high[first]);
                const float score = sketch.biases[at] +
                                    sketch.scales[at] * (text.scale * static_cast<float>(sum - text.zero));
                label.scored.score = std::isnan(score) ? kNone : score;
            }
        });
}

}  // namespace

std::vector<std::vector<std::int64_t>> sketch_candidates(const Context& context, const LabelSketch& sketch,
                                                         std::span<const Bf16> texts, std::int64_t count) {
    const std::int64_t num_texts = static_cast<std::int64_t>(texts.size()) / sketch.width;
    std::vector<SketchedText> sketched;
    for (std::int64_t i = 0; i < num_texts; ++i)
        sketched.push_back(sketch_text(sketch, texts.subspan(static_cast<std::size_t>(i * sketch.width),
                                                             static_cast<std::size_t>(sketch.width))));
    const std::int64_t passed =
        sketch.rest_bytes() == 0 ? count : std::max(kFewestPassed, kPassedPerCandidate * count);
    const std::vector<float> least = sampled_scores(context, sketch, sketched, passed);
    std::vector<std::vector<PassedLabel>> found = labels_above(context, sketch, sketched, least);
    std::vector<std::vector<std::int64_t>> result;
    for (std::size_t i = 0; i < found.size(); ++i) {
        // The sample misled: less is asked, not nothing, as ordering all labels takes twenty times as long.
        const auto text = std::span<const SketchedText>(sketched).subspan(i, 1);
        std::vector<float> lower = {least[i]};
        for (std::int64_t wanted = passed;
             static_cast<std::int64_t>(found[i].size()) < passed && lower.front() > kNone;) {
            lower = sampled_scores(context, sketch, text, wanted *= 2);
            found[i] = labels_above(context, sketch, text, lower).front();
        }
        score_by_all(context, sketch, sketched[i], found[i], passed);
        keep_best(found[i], count);
        auto& labels = result.emplace_back();
        for (const PassedLabel& label : found[i]) labels.push_back(label.scored.label);
    }
    return result;
}

}  // namespace elmo
