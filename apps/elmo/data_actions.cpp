#include "data_actions.h"

#include <fmt/format.h>

#include <algorithm>

#include "elmo/data.h"
#include "elmo/messages.h"
#include "output.h"
#include "verbs.h"

namespace elmo::cli {
namespace {

std::string text_of(const Spread& spread) {
    return fmt::format("{:.2f} (median {}, 90% to {}, 99% to {}, most {})", spread.mean,
                       with_commas(spread.median), with_commas(spread.p90), with_commas(spread.p99),
                       with_commas(spread.most));
}

void add_split(const SplitReport& split, std::int64_t max_length, Facts& facts) {
    const auto count_if_any = [&](const std::string& name, std::int64_t value) {
        if (value > 0) facts.push_back({"  " + name, with_commas(value)});
    };
    facts.push_back({split.name, counted(split.rows, "row")});
    facts.push_back({"  labels per row", text_of(split.labels_per_row)});
    count_if_any("rows without labels", split.rows_without_labels);
    if (split.tokens_per_row.most > 0) facts.push_back({"  tokens per row", text_of(split.tokens_per_row)});
    count_if_any(fmt::format("longer than {} tokens", max_length), split.longer_than_max);
    count_if_any("empty texts", split.empty_texts);
    count_if_any("texts seen before", split.repeated_texts);
    count_if_any("texts also in training", split.texts_in_train);
    if (split.not_utf8 > 0)
        facts.push_back({"  not UTF-8", fmt::format("{}, the first at {}{}", counted(split.not_utf8, "row"),
                                                    split.first_not_utf8,
                                                    2 * split.like_latin1 > split.not_utf8
                                                        ? "; this looks like Latin-1: --encoding latin-1"
                                                        : "")});
}

std::string text_of(const std::vector<SampleLabel>& labels) {
    std::string text;
    for (const SampleLabel& label : labels)
        text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", label.name, with_commas(label.rows));
    return text;
}

// Rows as they were read: mistakes in reading are seen at a glance.
void add_samples(const DataReport& report, Facts& facts) {
    for (const SampleRow& row : report.samples) {
        std::string labels;
        for (const std::string& label : row.labels)
            labels += fmt::format("{}'{}'", labels.empty() ? "" : ", ", quoted(label, 40));
        facts.push_back({"row", quoted(row.text, 100)});
        facts.push_back({"  labels", labels.empty() ? "none" : labels});
    }
}

std::string table(const DataReport& report, const Config& config) {
    Facts facts = {{"format", report.format}};
    for (const SplitReport& split : report.splits) add_split(split, config.max_length, facts);
    facts.push_back({"labels", with_commas(report.labels) + (report.has_label_names ? ", named" : "")});
    facts.push_back({"  training rows per label", text_of(report.rows_per_label)});
    const auto count_if_any = [&](const std::string& name, std::int64_t value) {
        if (value > 0) facts.push_back({"  " + name, with_commas(value)});
    };
    count_if_any("unseen in training", report.labels_unseen_in_train);
    count_if_any("names shared with another label", report.repeated_names);
    count_if_any("empty names", report.empty_names);
    count_if_any("repeated in a row", report.merged_labels);
    std::int64_t most = 1;
    for (const auto& [rows, labels] : report.histogram) most = std::max(most, labels);
    for (const auto& [rows, labels] : report.histogram)
        facts.push_back({fmt::format("  with {} row{}", rows, rows == "1" ? "" : "s"),
                         fmt::format("{:>12} {}", with_commas(labels),
                                     std::string(static_cast<std::size_t>(40 * labels / most), '#'))});
    if (!report.commonest.empty()) facts.push_back({"  commonest (rows)", text_of(report.commonest)});
    if (!report.strangest.empty()) facts.push_back({"  strangest (rows)", text_of(report.strangest)});
    if (report.plan_bytes > 0)
        facts.push_back(
            // With nothing given, training takes the linear model on a CPU, whose memory depends on the
            // texts.
            {given(config, "encoder") ? "to train" : "to train --encoder bag",
             fmt::format("{} of memory at most ({} encoder, {} head, batches of {}), about {} per epoch{}",
                         human_bytes(report.plan_bytes), report.encoder, report.precision,
                         static_cast<std::int64_t>(config.batch_size),
                         counted(report.steps_per_epoch, "step"),
                         report.steps_with_label_texts > report.steps_per_epoch
                             ? fmt::format(", {} if label texts train too",
                                           with_commas(report.steps_with_label_texts))
                             : "")});
    add_samples(report, facts);
    for (const std::string& trouble : report.trouble) facts.push_back({"import stops at", trouble});
    for (const std::string& doubt : report.doubts) facts.push_back({"likely mistake", doubt});
    facts.push_back({"cache", report.cache});
    return aligned(facts);
}

}  // namespace

void run_data_report(const Invocation& call) {
    const DataReport report = report_data(call.context, call.config);
    if (call.json)
        write_json(report);
    else
        write_stdout(table(report, with_usual_numbers(call.config)));
}

void run_conversion(const Invocation& call) {
    const Conversion made = convert_data(call.context, call.config, call.extra.at("to"));
    if (call.json) return write_json(made);
    std::string files;
    for (const std::string& file : made.files) files += (files.empty() ? "" : ", ") + file;
    write_stdout(aligned(Facts{{"out", call.config.out},
                               {"format", made.format},
                               {"training rows", with_commas(made.train_rows)},
                               {"test rows", with_commas(made.test_rows)},
                               {"labels", with_commas(made.labels)},
                               {"files", files}}));
}

void run_filters(const Invocation& call) {
    const std::string& kinds = call.extra.at("filters");
    const bool own = kinds == "own" || kinds == "own,reciprocal" || kinds == "reciprocal,own";
    const bool reciprocal = kinds == "reciprocal" || (own && kinds != "own");
    if (!own && !reciprocal)
        usage_error(
            data_verb(),
            fmt::format("--filters: expected own, reciprocal or own,reciprocal, found '{}'", quoted(kinds)));
    const FilterResult made = make_filters(call.context, call.config, own, reciprocal);
    if (call.json)
        write_json(made);
    else
        write_stdout(aligned(
            Facts{{"training pairs", fmt::format("{}  {}", with_commas(made.train_pairs), made.train_file)},
                  {"test pairs", fmt::format("{}  {}", with_commas(made.test_pairs), made.test_file)}}));
}

void run_paper2keywords(const Invocation& call, const std::string& dump) {
    const PaperKeywords made = make_paper2keywords(call.context, dump, call.config);
    if (call.json) return write_json(made);
    const auto row = [](const char* name, std::string here, const char* paper) {
        return std::vector<std::string>{name, std::move(here), paper};
    };
    write_stdout(aligned(std::vector<std::vector<std::string>>{
        row("", "here", "the paper"), row("papers in the dump", with_commas(made.papers), ""),
        row("  without a title", with_commas(made.without_text), ""),
        row("  without keywords", with_commas(made.without_keywords), ""),
        row("  repeated", with_commas(made.repeated), ""),
        row("training rows", with_commas(made.train_rows), "2,020,621"),
        row("test rows", with_commas(made.test_rows), "2,020,621"),
        row("labels", with_commas(made.labels), "8,623,847"),
        row("  more in test only", with_commas(made.labels_unseen_in_train), ""),
        row("labels per row", fmt::format("{:.2f}", made.labels_per_row), "9.03"),
        row("rows per label", fmt::format("{:.2f}", made.rows_per_label), "2.12")}));
}

}  // namespace elmo::cli
