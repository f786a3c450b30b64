#include "run/run_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/said_once.h"
#include "base/text_util.h"
#include "config/encoder_folder.h"
#include "config/resolve.h"
#include "data/tokenizer_files.h"
#include "data/unknown_texts.h"
#include "elmo/context.h"
#include "elmo/dataset.h"
#include "elmo/error.h"
#include "io/checksum.h"
#include "ranks/scatter.h"
#include "run/resolve.h"
#include "sources/layout.h"

namespace elmo {
namespace {

// More texts than this share cut at the usual length ask for a longer one.
constexpr double kManyCut = 0.05;
constexpr std::int64_t kMostLength = 512, kLongerOfTransformer = 256;

template <class T>
void hash_rows(Hash64& hash, const RaggedRows<T>& rows) {
    hash.update(std::as_bytes(rows.offsets));
    hash.update(std::as_bytes(rows.values));
}

std::int64_t steps_of(const Config& config, std::int64_t steps_per_epoch) {
    if (config.steps > 0) return config.steps;
    const double steps = std::ceil(config.epochs * static_cast<double>(steps_per_epoch));
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(steps));
}

// No more texts than a shard has: a validation needs no more memory than a step.
std::int64_t validation_batch(const Config& config) {
    const std::int64_t shards = config.batch_shards.value_or(1);
    return (config.batch_size + shards - 1) / shards;
}

}  // namespace

RunData::RunData(const Context& context, Config config, const Checkpoint* checkpoint)
    : config_(std::move(config)),
      start_(checkpoint != nullptr ? EncoderStart::kPretrained : encoder_start(config_)) {
    if (config_.data.empty()) throw ConfigError("data: expected a data set (folder or file), found none");
    tokenizer_ =
        checkpoint != nullptr ? stored_tokenizer(checkpoint->content()) : open_tokenizer(context, config_);
    make_spec(checkpoint);
    if (checkpoint != nullptr) data_of_run_ = checkpoint->config().data;
    try {
        open_dataset(context);
    } catch (const Interrupted&) {
        throw;
    } catch (const Error& error) {
        // Where a run is continued, how to read it otherwise is no help: its recipe stays.
        const std::string_view what = error.what();
        if (!config_.resume || !is_other_path() || what.starts_with("validation: ")) throw;
        throw DataError(fmt::format("resume: {} cannot be read as the data of the run: {}; {}", config_.data,
                                    what.substr(0, what.find("; ")), data_advice()));
    }
    const Split& train = dataset_->train();
    if (!train.present || train.rows() == 0)
        throw DataError(fmt::format("{}: expected training rows, found none", config_.data));
    if (dataset_->num_labels() == 0)
        throw DataError(fmt::format("{}: expected labels, found none", config_.data));
    const bool is_first = ranks_of(context).is_first();  // the one whose warnings are seen
    std::int64_t unknown = 0;
    for (std::int64_t row = 0; is_first && row < train.rows(); ++row)
        unknown += is_mostly_unknown(train.tokens.row(row), *tokenizer_);
    if (const std::string line = unknown_line(unknown, train.rows()); !line.empty())
        context.warning(fmt::format(
            "{}: {}; {}", config_.data, line,
            config_.init.empty() ? "take a tokenizer that knows their characters (--tokenizer, --encoder)"
                                 : "train a new run, whose tokenizer knows them, on all rows"));
    if (config_.encoder != kLinearEncoder) choose_numbers(context, checkpoint);

    RowLists rows = split_validation(config_, train.rows(), train.tokens);
    const Split& file = dataset_->validation();
    if (file.present && file.rows() > 0) {
        validation_split_ = &file;
        if (is_first) warn_of_trained_validation(context, file);
        validation_.emplace(file, all_rows(file.rows()), validation_batch(config_));
    } else if (!rows.validation.empty()) {
        validation_split_ = &train;
        validation_.emplace(train, std::move(rows.validation), validation_batch(config_));
    }
    train_.emplace(train, std::move(rows.train), config_.batch_size, config_.seed);
    Config for_labels = config_;
    for_labels.max_length = max_length_;
    augmentation_ = Augmentation::open(context, for_labels, *dataset_, *tokenizer_);
    train_->append(augmentation_.rows());
    total_steps_ = steps_of(config_, train_->steps_per_epoch());
}

void RunData::warn_of_trained_validation(const Context& context, const Split& file) const {
    const std::vector<std::int64_t> rows = all_rows(file.rows());
    const std::vector<std::int64_t> known = known_rows(file.tokens, rows, *tokenizer_);
    const std::int64_t trained = trained_texts().count(file.tokens, known);
    if (10 * std::ssize(known) >= file.rows() && 2 * trained > std::ssize(known))
        context.warning(
            fmt::format("{}: {} of {} are training texts too: the score that chooses the checkpoint says "
                        "little about new "
                        "texts; validate with others, or with a share of the rows (--validation 0.02)",
                        config_.validation, with_commas(trained), counted(file.rows(), "validation text")));
}

void RunData::make_spec(const Checkpoint* checkpoint) {
    if (config_.encoder == kLinearEncoder)
        spec_.family = kLinearEncoder;
    else
        spec_ = make_encoder_spec(config_, tokenizer_->vocab_size(),
                                  checkpoint != nullptr ? checkpoint->content() : InputFolder());
}

void RunData::open_dataset(const Context& given) {
    Config for_data = config_;
    const Context context = with_said_once(given, "");  // it may be opened twice
    // A second training of the same data has the same doubts.
    Dataset::Warn warn = Dataset::Warn::kAlways;
    const auto open = [&](std::int64_t length) {
        for_data.max_length = max_length_ = length;
        dataset_ = Dataset::open(context, for_data, *tokenizer_, &summary_,
                                 {SplitName::kTrain, SplitName::kValidation}, warn);
        warn = Dataset::Warn::kWhenImported;
    };
    if (!config_.max_length.is_auto()) return open(cut_length(context, config_.max_length, spec_));
    const std::int64_t most = spec_.positions > 0 ? spec_.longest_text() : kMostLength;
    open(std::min(kUsualLength, most));
    const std::int64_t longer = spec_.is_bag() ? most : std::min(kLongerOfTransformer, most),
                       cut = summary_.cut_rows;
    const bool many = static_cast<double>(cut) > kManyCut * static_cast<double>(summary_.train_rows);
    std::string why =
        find_layout(config_).format == DataFormat::kSparse
            ? std::string("bag-of-words features are cut at no length")
            : fmt::format("{} of {} texts are longer", with_commas(cut), with_commas(summary_.train_rows));
    if (many && longer > max_length_) {
        why += fmt::format(" than {}", max_length_);
        open(longer);
    }
    choose_option(config_, "max_length", &Config::max_length, Auto<std::int64_t>(max_length_),
                  std::string(kAutoReason) + why);
}

void RunData::choose_numbers(const Context& context, const Checkpoint* checkpoint) {
    DataFacts facts;
    facts.rows = dataset_->train().rows();
    facts.labels = dataset_->num_labels();
    // A continued run keeps the shards that it has, and one from before there were any has one.
    facts.ranks = checkpoint != nullptr ? 1 : std::max<std::int64_t>(ranks_of(context).size(), config_.ranks);
    if (config_.augment == "auto")
        facts.label_texts = look_at_label_texts(*dataset_, *tokenizer_, max_length_);
    config_ = with_data_numbers(std::move(config_), start_, facts);
    make_spec(checkpoint);
    config_ = with_precision(context, std::move(config_), facts.labels * spec_.width);
}

void RunData::store_recompute(const std::string& mode) {
    choose_option<std::string>(config_, "recompute", &Config::recompute, mode,
                               std::string(kAutoReason) + "no product again, and no more memory");
}

void RunData::plan_batch(std::int64_t batch_size) {
    config_.batch_size = batch_size;
    train_->set_batch_size(batch_size);
    if (validation_) validation_->set_batch_size(validation_batch(config_));
    total_steps_ = steps_of(config_, train_->steps_per_epoch());
}

RankShare RunData::share(const Context& context) const {
    const Ranks& ranks = ranks_of(context);
    RankShare share{ranks.rank(), ranks.size(), config_.label_groups.value_or(1),
                    config_.batch_shards.value_or(1)};
    if (config_.ranks > share.ranks) {
        share.ranks = config_.ranks;
        share.rank = planned_rank_;
    }
    return share;
}

EngineParts RunData::parts(const Context& context) const {
    const RankShare cut = share(context);
    const std::int64_t labels = dataset_->num_labels();
    EngineParts parts = training_parts(config_, spec_, labels, cut);
    if (!cut.is_alone())
        parts.head->extras.compensated_rows = static_cast<std::int64_t>(own_compensated(context).size());
    return parts;
}

std::vector<std::int64_t> RunData::own_compensated(const Context& context) const {
    const std::int64_t labels = dataset_->num_labels(), count = compensated_labels(config_, labels);
    if (count == 0) return {};
    Ranks& ranks = ranks_of(context);
    const RankShare cut = share(context);
    std::vector<std::int64_t> all;
    if (ranks.is_first()) all = frequent_labels(count);
    const auto part_of = [&](std::int64_t rank) {
        const ShareRange own = cut.own_labels(labels, rank);
        const auto first = std::ranges::lower_bound(all, own.first);
        return std::span(first, std::lower_bound(first, all.end(), own.last));
    };
    if (ranks.size() > 1) return scatter<std::int64_t>(ranks, part_of);
    const auto own = part_of(cut.rank);
    return {own.begin(), own.end()};
}

RunShape RunData::shape(const Context& context, std::int64_t largest_k) const {
    RunShape shape;
    shape.share = share(context);
    BatchLimits limits = train_->limits(context, 0, total_steps_, shape.share);
    const std::int64_t labels = dataset_->num_labels();
    shape.batch = std::min<std::int64_t>(config_.batch_size, train_->num_rows());
    if (!shape.share.is_whole()) {
        shape.texts = shape.batch;
        shape.rank_texts = limits.rank_texts;
        shape.labels = labels;
    }
    if (shape.share.shards > 1 || shape.share.ranks > 1) {
        shape.batch = limits.shard_texts;
        limits.tokens = limits.shard_tokens;
    }
    if (validation_) {
        const BatchLimits other = validation_->limits(context, 0, validation_->steps_per_epoch());
        limits.tokens = std::max(limits.tokens, other.tokens);
        limits.longest_row = std::max(limits.longest_row, other.longest_row);
        shape.batch =
            std::max(shape.batch, std::min<std::int64_t>(validation_->batch_size(), validation_->num_rows()));
        shape.top_k = std::min(largest_k + longest_filter(*validation_split_), labels);
    }
    shape.positives = limits.positives;
    shape.weighted = weighs_positives(config_);
    shape.tokens = std::max<std::int64_t>(limits.tokens, 1);
    shape.longest = std::max<std::int64_t>(limits.longest_row, 1);
    shape.mapped_bytes = dataset_->mapped_bytes() + augmentation_.mapped_bytes();
    // Row lists, and weights of the rank's labels. The first rank, which scores and saves, also has the
    // weights of all labels, label counts and propensities, names as views and hashes of texts.
    const bool is_first = shape.share.rank == 0;
    shape.table_bytes = 8 * (train_->num_rows() + (validation_ ? validation_->num_rows() : 0));
    if (shape.weighted) shape.table_bytes += 4 * (is_first ? labels : shape.share.own_labels(labels).size());
    if (is_first)
        shape.table_bytes += 8 * std::min<std::int64_t>(dataset_->train().rows(), TrainedTexts::kMost) +
                             (dataset_->has_label_names() ? 32 : 16) * labels;
    return shape;
}

std::int64_t RunData::kept_vector_bytes() const {
    // A power of two times a number rounds as the number does.
    int exponent = 0;
    const bool exact = std::frexp(Dropout{spec_.pooled_dropout, {}}.scale(), &exponent) == 0.5f;
    if (!spec_.frozen || !exact || config_.keep_vectors == "no") return 0;
    return (dataset_->train().rows() + augmentation_.rows().rows()) * spec_.width * size_of(DType::kBf16);
}

bool RunData::is_other_path() const {
    return !data_of_run_.empty() && original_value(config_, "data") != data_of_run_;
}

std::string RunData::data_advice() const {
    if (!is_other_path()) return "it has changed: put it back as it was, or start a new run";
    if (is_row_folder(data_of_run_))  // nobody can name it, and nothing has it
        return "the run was trained on rows from memory, and these are others: give the same ones "
               "in the same order, or another --out";
    return fmt::format(
        "leave DATA out, or name the place where {} is now; other data needs a new run{}", data_of_run_,
        config_.encoder == kLinearEncoder ? "" : ", which may start from this one: --init RUN");
}

void RunData::require_data_of(const RunState& was, const RunState& state,
                              const std::filesystem::path& folder) const {
    if (was.data_hash == state.data_hash && was.labels == state.labels && was.names_hash == state.names_hash)
        return;
    throw DataError(fmt::format(
        "resume: {} is not the data of the run in {}: expected {} rows, {} labels and hash {}, found {}, {} "
        "and {}; {}",
        config_.data, folder.string(), was.train_rows, was.labels, was.data_hash, state.train_rows,
        state.labels, state.data_hash, data_advice()));
}

void RunData::describe(RunState& state) const {
    state.total_steps = total_steps_;
    state.steps_per_epoch = train_->steps_per_epoch();
    state.train_rows = dataset_->train().rows();
    state.labels = dataset_->num_labels();
    state.data_hash = rows_hash(dataset_->train(), augmentation_.rows());
    state.names_hash = names_hash(*dataset_);
}

namespace {

template <class NameOf>
std::string hash_names(std::int64_t count, const NameOf& name_of) {
    if (count == 0) return "";
    Hash64 hash;
    for (std::int64_t label = 0; label < count; ++label) {
        hash.update(name_of(label));
        hash.update("\n");
    }
    return hash_text(hash.digest());
}

}  // namespace

std::string rows_hash(const Split& train, const Split& augmented) {
    Hash64 hash;
    hash_rows(hash, train.tokens);
    hash_rows(hash, train.labels);
    if (augmented.present) {
        hash_rows(hash, augmented.tokens);
        hash_rows(hash, augmented.labels);
        hash.update(std::as_bytes(augmented.label_targets));
    }
    return hash_text(hash.digest());
}

std::string names_hash(const Dataset& dataset) {
    return hash_names(dataset.has_label_names() ? dataset.num_labels() : 0,
                      [&](std::int64_t label) { return dataset.label_name(label); });
}

std::string names_hash(const std::vector<std::string_view>& names) {
    return hash_names(static_cast<std::int64_t>(names.size()),
                      [&](std::int64_t label) { return names[static_cast<std::size_t>(label)]; });
}

LabelTable RunData::labels() const {
    LabelTable table;
    const auto counts = dataset_->label_counts();
    table.counts.assign(counts.begin(), counts.end());
    if (dataset_->has_label_names())
        for (std::int64_t label = 0; label < dataset_->num_labels(); ++label)
            table.names.push_back(dataset_->label_name(label));
    return table;
}

TrainedTexts RunData::trained_texts() const {
    TrainedTexts texts;
    const Split& train = dataset_->train();
    texts.add(train.tokens, split_validation(config_, train.rows(), train.tokens).train);
    return texts;
}

std::vector<std::int64_t> RunData::frequent_labels(std::int64_t count) const {
    const Split& train = dataset_->train();
    std::vector<std::int64_t> rows_of(static_cast<std::size_t>(dataset_->num_labels()));
    const RowLists lists = split_validation(config_, train.rows(), train.tokens);
    for (const std::int64_t row : lists.train)
        for (const std::uint32_t label : train.labels.row(row)) ++rows_of[label];
    std::vector<std::int64_t> order(rows_of.size());
    std::iota(order.begin(), order.end(), std::int64_t{0});
    const auto comes_first = [&](std::int64_t a, std::int64_t b) {
        const std::int64_t rows_a = rows_of[static_cast<std::size_t>(a)],
                           rows_b = rows_of[static_cast<std::size_t>(b)];
        return rows_a > rows_b || (rows_a == rows_b && a < b);
    };
    assert(0 <= count && count <= static_cast<std::int64_t>(order.size()));
    std::nth_element(order.begin(), order.begin() + count, order.end(), comes_first);
    order.resize(static_cast<std::size_t>(count));
    std::sort(order.begin(), order.end());
    return order;
}

}  // namespace elmo
