#include "train/take_over.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/text_util.h"
#include "elmo/error.h"
#include "rank/label_match.h"

namespace elmo {
namespace {

// Rows that are read at a time.
constexpr std::int64_t kBlock = 4096;

// The number in the other run of each label, or -1.
std::vector<std::int64_t> numbers_in(const std::vector<std::string_view>& run_names, std::int64_t run_labels,
                                     const LabelTable& labels) {
    const auto count = labels.counts.size();
    std::vector<std::int64_t> numbers(count);
    if (labels.names.empty() && run_names.empty() && std::ssize(labels.counts) != run_labels)
        throw DataError(
            fmt::format("init: labels without names are told by their number: expected {} of them, as the "
                        "run has, found {}; "
                        "give data with the labels of the run",
                        with_commas(run_labels), with_commas(std::ssize(labels.counts))));
    if (labels.names.empty() && run_names.empty())
        std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
    else if (labels.names.empty() || run_names.empty())
        std::fill(numbers.begin(), numbers.end(), run_labels);
    else
        numbers = match_labels(labels.names, run_names).number;
    for (std::int64_t& number : numbers)
        if (number >= run_labels) number = -1;
    return numbers;
}

// Rows [begin, end) of the head from the other run, where it has them.
void take_block(const InputFolder& from, const std::vector<std::int64_t>& numbers, std::int64_t begin,
                std::int64_t end, Head& head) {
    std::vector<std::int64_t> stored;  // that this block needs
    for (std::int64_t row = begin; row < end; ++row)
        if (numbers[static_cast<std::size_t>(row)] >= 0)
            stored.push_back(numbers[static_cast<std::size_t>(row)]);
    if (stored.empty()) return;
    std::sort(stored.begin(), stored.end());
    const std::vector<float> values = read_head_rows(from, stored);
    const auto width = static_cast<std::size_t>(head.width());
    std::vector<float> together;  // neighbouring rows, as the head takes them
    std::int64_t first = begin;
    const auto assign = [&] {
        if (!together.empty()) head.assign(together, first);
        together.clear();
    };
    for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t number = numbers[static_cast<std::size_t>(row)];
        if (number < 0) {
            assign();
            continue;
        }
        if (together.empty()) first = row;
        const auto at =
            static_cast<std::size_t>(std::lower_bound(stored.begin(), stored.end(), number) - stored.begin());
        together.insert(together.end(), values.begin() + static_cast<std::ptrdiff_t>(at * width),
                        values.begin() + static_cast<std::ptrdiff_t>((at + 1) * width));
    }
    assign();
}

}  // namespace

std::string TakenOver::describe(const std::string& run) const {
    std::string text = fmt::format("starting from {}: {} of {} labels taken over, {} new", run,
                                   with_commas(taken), with_commas(labels), with_commas(labels - taken));
    if (left_behind > 0)
        text += fmt::format("; without {} of that run, which the data does not have",
                            counted(left_behind, "label"));
    return text;
}

TakenOver take_over_labels(const Config& config, const LabelTable& labels, Head& head) {
    Checkpoint from(config.init, "best");
    const HeadSpec stored = stored_head(from.content());
    if (stored.width != head.width())
        throw DataError(fmt::format("init: expected a head of width {}, found {} in {}", head.width(),
                                    stored.width, from.folder().string()));
    const std::int64_t run_labels = from.state().labels;
    const auto numbers = numbers_in(from.label_names(), run_labels, labels);
    TakenOver taken;
    taken.labels = static_cast<std::int64_t>(numbers.size());
    taken.taken = std::count_if(numbers.begin(), numbers.end(), [](std::int64_t n) { return n >= 0; });
    taken.left_behind = run_labels - taken.taken;
    if (taken.taken == 0)
        throw DataError(fmt::format(
            "init: none of the {} labels of {} is a label of {}; to take only its encoder, give --encoder {}",
            with_commas(taken.labels), config.data, config.init, shell_word(config.init)));
    std::vector<std::int64_t> of_rows;  // of the labels that this rank has
    for (std::int64_t row = 0; row < head.labels(); ++row)
        of_rows.push_back(numbers[static_cast<std::size_t>(head.layout().label(row))]);
    for (std::int64_t begin = 0; begin < head.labels(); begin += kBlock)
        take_block(from.content(), of_rows, begin, std::min(begin + kBlock, head.labels()), head);
    return taken;
}

}  // namespace elmo
