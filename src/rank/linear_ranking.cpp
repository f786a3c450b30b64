#include "rank/linear_ranking.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/progress.h"
#include "data/dataset.h"
#include "elmo/config.h"
#include "elmo/error.h"

namespace elmo {
namespace {

constexpr std::int64_t kRowsHeld = 1 << 14;  // rows whose rankings are held at once

}  // namespace

void refuse_other_device(const Config& config) {
    if (config.device != "cpu" && given(config, "device") && config.device != "auto")
        throw ConfigError(fmt::format("device: a linear model works on the cpu, found {}; leave --device out",
                                      config.device));
}

void warn_of_unused_limit(const Context& context, const Config& config) {
    if (given(config, "max_memory")) context.warning("max_memory has no effect with a linear model");
}

void rank_rows(const Context& context, const LinearRanker& ranker, const Split& split,
               std::span<const std::int64_t> rows, std::int64_t k, const std::string& title,
               const TakeRanked& take) {
    const auto count = static_cast<std::int64_t>(rows.size());
    const bool filtered = split.filter.rows() > 0;
    const std::int64_t more = filtered ? longest_filter(split) : 0;
    std::vector<std::int64_t> drop;
    Progress progress(context, title, count, "texts");
    for (std::int64_t first = 0; first < count; first += kRowsHeld) {
        const std::int64_t block = std::min(kRowsHeld, count - first);
        const auto row_of = [&](std::int64_t i) { return rows[static_cast<std::size_t>(first + i)]; };
        auto ranked = ranker.rank(
            context, [&](std::int64_t i) { return split.tokens.row(row_of(i)); }, block, k + more);
        for (std::int64_t i = 0; i < block; ++i) {
            auto& labels = ranked[static_cast<std::size_t>(i)];
            if (filtered) {
                const auto pairs = split.filter.row(row_of(i));
                drop.assign(pairs.begin(), pairs.end());
                remove_filtered(labels, std::span<const std::int64_t>(drop), k);
            }
            take(row_of(i), labels);
        }
        progress.update(first + block);
    }
    progress.finish();
}

}  // namespace elmo
