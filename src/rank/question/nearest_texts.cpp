// The training texts that are most like a text. A run has an index of them, but not the texts: these are read
// from the run's data, if it is still what it was.
#include <fmt/format.h>

#include <algorithm>

#include "config/resolve.h"
#include "data/token_import.h"
#include "data/tokenizer_files.h"
#include "elmo/error.h"
#include "elmo/explain.h"
#include "run/resolve.h"
#include "run/run_data.h"

namespace elmo {
namespace {

// Fills in the texts. DataError or ConfigError if the data is not what trained the run.
void read_nearest(const Context& context, const std::string& run, const Config& given,
                  std::vector<NearText>& nearest) {
    const Checkpoint checkpoint(run, given.checkpoint, Checkpoint::Check::kAllButHead);
    Config config =
        with_cache_of_run(with_run_reading(given, checkpoint.config()), checkpoint.config(), given);
    config.max_length = checkpoint.config().max_length;
    const auto tokenizer = stored_tokenizer(checkpoint.content());
    const Dataset dataset = Dataset::open(context, config, *tokenizer, nullptr, {SplitName::kTrain});
    const Split& train = dataset.train();
    if (rows_hash(train) != checkpoint.state().data_hash)
        throw DataError(fmt::format("{}: expected the rows that trained the run, found others",
                                    original_value(config, "data")));
    const std::vector<std::int64_t> rows = split_validation(config, train.rows(), train.tokens).train;
    std::vector<std::pair<std::int64_t, NearText*>> wanted;
    for (NearText& near : nearest)
        wanted.emplace_back(rows.at(static_cast<std::size_t>(near.training_text)), &near);
    std::sort(wanted.begin(), wanted.end());
    SplitTexts texts(context, config);
    std::string_view text;
    std::int64_t row = 0;
    for (auto& [number, near] : wanted) {
        while (row <= number && texts.next(text)) ++row;
        near->text = text;
    }
}

}  // namespace

void add_nearest_texts(const Context& context, const std::string& run, const Config& config,
                       Predictor& predictor, const std::string& text, std::int64_t limit,
                       Explanation& explanation, std::string& why_not) {
    explanation.nearest = predictor.nearest_texts(text, limit);
    why_not.clear();
    if (!explanation.nearest || explanation.nearest->empty()) return;
    try {
        read_nearest(context, run, config, *explanation.nearest);
    } catch (const Error& error) {
        why_not = error.what();
    }
}

}  // namespace elmo
