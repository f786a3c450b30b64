#include "data/label_doubts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/text_util.h"
#include "elmo/config.h"
#include "elmo/dataset.h"
#include "io/checksum.h"
#include "sources/tables/guess.h"
#include "sources/tables/label_fields.h"
#include "sources/tables/label_lists.h"
#include "sources/tables/table_shape.h"
#include "text/unicode/unicode.h"

namespace elmo {
namespace {

constexpr std::string_view kSeparators = ";|/\t";

bool is_quote(char c) {
    return c == '"' || c == '\'';
}

bool is_shut(std::string_view name, char open, char close) {
    return std::ranges::count(name, open) == std::ranges::count(name, close);
}

// A bracket of a list at an end of the name that is not shut inside it, or opens it before a quote.
bool is_end_of_list(std::string_view name) {
    if (name.size() < 2) return false;
    const char first = name.front(), last = name.back();
    const auto is_end = [&](char open, char close) {
        if (first == open && is_quote(name[1])) return true;
        return (first == open || last == close) && !is_shut(name, open, close);
    };
    return is_end('[', ']') || is_end('{', '}');
}

// 'a': 1 with a bracket of a dictionary before or behind it.
bool is_end_of_dictionary(std::string_view name) {
    return is_end_of_list(name) && (name.front() == '{' || name.back() == '}') && has_lone_colon(name);
}

bool is_in_quotes(std::string_view name) {
    return name.size() > 1 && is_quote(name.front()) && name.back() == name.front();
}

struct Tally {
    std::int64_t ends_of_lists = 0, ends_of_dictionaries = 0, in_quotes = 0, rare = 0;
    std::vector<std::int64_t> null_words;  // labels
    std::string piece;
    std::int64_t with[kSeparators.size()] = {};  // names that hold the separator
};

// Also of the rows that were held out of the file.
std::int64_t rows_with(std::int64_t label, const Dataset& data, const Layout& layout) {
    std::int64_t rows = data.label_counts()[label];
    const Split& held_out = data.test();
    for (std::int64_t i = 0; layout.splits_by_hash() && i < held_out.rows(); ++i)
        rows += std::ranges::binary_search(held_out.labels.row(i), static_cast<std::uint32_t>(label)) ? 1 : 0;
    return rows;
}

Tally tally_names(const Dataset& data) {
    Tally tally;
    const auto counts = data.label_counts();
    for (std::int64_t label = 0; label < data.num_labels(); ++label) {
        const std::string_view name = data.label_name(label);
        const std::int64_t rows = counts.empty() ? 0 : counts[label];
        tally.rare += rows <= 1;
        if (is_end_of_list(name) && tally.ends_of_lists++ == 0) tally.piece = name;
        tally.ends_of_dictionaries += is_end_of_dictionary(name);
        tally.in_quotes += is_in_quotes(name);
        if (rows > 0 && is_null_word(name)) tally.null_words.push_back(label);
        for (std::size_t i = 0; i < kSeparators.size(); ++i)
            tally.with[i] += name.find(kSeparators[i]) != name.npos;
    }
    return tally;
}

// Most rows that have labels have one that hardly another row has.
bool is_one_label_a_row(const Dataset& data, const Tally& tally) {
    const Split& rows = data.train();
    std::int64_t single = 0, labelled = 0;
    for (std::int64_t i = 0; i < rows.rows(); ++i) {
        single += rows.labels.length(i) == 1;
        labelled += rows.labels.length(i) > 0;
    }
    return labelled >= 20 && 10 * single >= 9 * labelled && 5 * data.num_labels() >= labelled &&
           2 * tally.rare >= data.num_labels();
}

// A label that no row has alone, where names may hold what cuts them ('Korea, Republic of'): nearly all rows
// have one label and nearly every other has such a one, or half of the rows have one and nearly all others
// only such.
std::optional<std::string_view> piece_of_name(const Dataset& data) {
    constexpr std::int64_t kFewRows = 20;
    const Split& rows = data.train();
    std::vector<bool> alone(static_cast<std::size_t>(data.num_labels()));
    std::int64_t several = 0, with_piece = 0, of_pieces = 0;
    for (std::int64_t i = 0; i < rows.rows(); ++i) {
        several += rows.labels.length(i) > 1;
        if (rows.labels.length(i) == 1) alone[rows.labels.row(i)[0]] = true;
    }
    if (several == 0 || rows.rows() < kFewRows) return std::nullopt;
    std::optional<std::string_view> piece;
    for (std::int64_t i = 0; i < rows.rows(); ++i) {
        const auto labels = rows.labels.row(i);
        const auto is_piece = [&](std::uint32_t label) { return !alone[label]; };
        const auto found = std::ranges::find_if(labels, is_piece);
        if (labels.size() < 2 || found == labels.end()) continue;
        ++with_piece;
        of_pieces += std::ranges::all_of(labels, is_piece);
        if (!piece) piece = data.label_name(*found);
    }
    const bool few = 5 * several <= rows.rows() && 10 * with_piece >= 9 * several;
    const bool many = 2 * several <= rows.rows() && 10 * of_pieces >= 9 * several;
    return few || many ? piece : std::nullopt;
}

// Whether names that hold the separator are made of labels, as others are: less than half of the names, so
// that the file may have been read with what stands between few of them.
bool are_joined(const Dataset& data, const Tally& tally, std::size_t separator) {
    constexpr std::int64_t kManyLabels = 200'000;  // above, looking takes too long
    if (kSeparators[separator] == '/' || 10 * tally.with[separator] < data.num_labels() ||
        data.num_labels() > kManyLabels)
        return false;
    std::set<std::string> names;
    for (std::int64_t label = 0; label < data.num_labels(); ++label) names.emplace(data.label_name(label));
    return recombines(names, kSeparators[separator]);
}

// Whether nearly every row has one name, and the names are made of few pieces between `separator` that stand
// alone or beside each other in any order. Phrases and paths are not: their words keep their places, or are
// as many as the names.
bool are_made_of_few(const Dataset& data, char separator) {
    constexpr std::int64_t kManyLabels = 200'000;  // above, looking takes too long
    constexpr std::ptrdiff_t kManyParts = 8;
    const Split& rows = data.train();
    std::int64_t several = 0;
    for (std::int64_t i = 0; i < rows.rows(); ++i) several += rows.labels.length(i) > 1;
    if (data.num_labels() > kManyLabels || 20 * several > rows.rows()) return false;
    std::int64_t joined = 0, found = 0;
    for (std::int64_t label = 0; label < data.num_labels(); ++label)
        joined += data.label_name(label).find(separator) != std::string_view::npos;
    if (joined < 10 || 2 * joined < data.num_labels()) return false;
    struct Piece {
        std::int64_t names = 0;
        bool alone = false;
    };
    std::unordered_map<std::string, Piece> pieces;
    std::vector<std::string> parts;
    const auto split = [&](std::int64_t label) {
        parts.clear();
        split_labels(data.label_name(label), {&separator, 1}, parts);
    };
    for (std::int64_t label = 0; label < data.num_labels(); ++label) {
        split(label);
        found += std::ssize(parts);
        for (const std::string& part : parts) {
            Piece& piece = pieces[part];
            ++piece.names;
            piece.alone = piece.alone || parts.size() == 1;
        }
        if (3 * std::ssize(pieces) > data.num_labels()) return false;
    }
    std::int64_t of_alone = 0, swapped = 0;
    for (const auto& [name, piece] : pieces)
        if (piece.alone)
            of_alone += piece.names;
        else if (2 * piece.names > joined)
            return false;  // a word that joins others, as in 'end of file'
    if (10 * of_alone >= 9 * found) return true;
    std::set<std::pair<std::string, std::string>> pairs;
    for (std::int64_t label = 0; label < data.num_labels(); ++label) {
        split(label);
        if (std::ssize(parts) > kManyParts) continue;  // whose pairs would be very many
        for (std::size_t i = 0; i < parts.size(); ++i)
            for (std::size_t j = i + 1; j < parts.size(); ++j) pairs.emplace(parts[i], parts[j]);
    }
    for (const auto& [a, b] : pairs) swapped += a != b && pairs.contains({b, a});
    return !pairs.empty() && 5 * swapped >= std::ssize(pairs);
}

bool is_numbers(std::string_view name) {
    return name.find_first_not_of("0123456789 ") == name.npos;
}

// Labels that were joined by what does not separate them here; "" where none are, or one may be unsure.
std::string joint_doubt(const Dataset& data) {
    std::int64_t numbers = 0, several_numbers = 0, tags = 0, several_tags = 0;
    std::string_view two_numbers, two_tags;
    for (std::int64_t label = 0; label < data.num_labels(); ++label) {
        const std::string_view name = data.label_name(label);
        numbers += is_numbers(name);
        if (is_numbers(name) && name.find(' ') != name.npos && several_numbers++ == 0) two_numbers = name;
        if (!name.starts_with('<') || !name.ends_with('>')) continue;
        ++tags;
        if (name.find("><") != name.npos && several_tags++ == 0) two_tags = name;
    }
    const std::string labels = with_commas(data.num_labels());
    if (several_tags > 0 && 10 * tags >= 9 * data.num_labels())
        return fmt::format(
            "{} of {} labels are several in angle brackets, such as '{}': write them as a|b, or give "
            "--label-separator '>' (names then begin with <)",
            with_commas(several_tags), labels, quoted(two_tags));
    if (numbers == data.num_labels() && 3 * several_numbers >= numbers)
        return fmt::format(
            "{} of {} labels are several numbers, such as '{}': where each is a label, give "
            "--label-separator ' '",
            with_commas(several_numbers), labels, quoted(two_numbers));
    for (const char separator : std::string_view("/+:& ")) {
        if (!are_made_of_few(data, separator)) continue;
        std::int64_t with = 0;
        for (std::int64_t label = 0; label < data.num_labels(); ++label)
            with += data.label_name(label).find(separator) != std::string_view::npos;
        return fmt::format(
            "{} of {} labels hold '{}' and are made of few names: where it stands between labels, give "
            "--label-separator '{}'",
            with_commas(with), labels, separator, separator);
    }
    return {};
}

// In a label of fastText, what begins the next one: "" where none holds it.
std::string fasttext_doubt(const Dataset& data) {
    constexpr std::string_view kStart = "__label__";
    std::int64_t with = 0;
    std::string_view example;
    for (std::int64_t label = 0; label < data.num_labels(); ++label)
        if (const std::string_view name = data.label_name(label);
            name.find(kStart) != name.npos && with++ == 0)
            example = name;
    if (with == 0) return {};
    return fmt::format("{} of {} labels hold '{}', such as '{}': put a blank before each {}",
                       with_commas(with), with_commas(data.num_labels()), kStart, quoted(example), kStart);
}

// A name as it is beside others: in lower case, decomposed, each run of blanks one, none at the ends.
std::string folded_name(std::string_view name) {
    std::string valid, plain;
    if (unicode::is_ascii(name)) {
        for (const char c : name)
            if (std::isspace(static_cast<unsigned char>(c)) == 0)
                plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
            else if (!plain.empty() && plain.back() != ' ')
                plain += ' ';
        return plain;
    }
    name = unicode::as_valid_utf8(name, valid);
    std::u32string lower, decomposed;
    for (std::size_t at = 0; at < name.size();) {
        const char32_t c = unicode::decode(name, at);
        if (!unicode::is_space(c))
            unicode::append_lower(c, lower);
        else if (!lower.empty() && lower.back() != U' ')
            lower += U' ';
    }
    if (lower.ends_with(U' ')) lower.pop_back();
    unicode::append_decomposed(lower, false, decomposed);
    unicode::append(decomposed, plain);
    return plain;
}

// Labels that others equal but for case, blanks and Unicode form; "" where none are.
std::string likeness_doubt(const Dataset& data) {
    constexpr std::int64_t kManyLabels = 5'000'000;  // above, their hashes take too much memory
    if (data.num_labels() > kManyLabels) return {};
    std::vector<std::pair<std::uint64_t, std::int64_t>> hashes;
    for (std::int64_t label = 0; label < data.num_labels(); ++label)
        hashes.emplace_back(hash64(folded_name(data.label_name(label))), label);
    std::ranges::sort(hashes);
    const auto counts = data.label_counts();
    const auto rows_of = [&](std::int64_t label) { return counts.empty() ? 0 : counts[label]; };
    std::int64_t pairs = 0, rows_of_example = -1;
    std::pair<std::int64_t, std::int64_t> example;
    for (auto begin = hashes.begin(), end = begin; begin != hashes.end(); begin = end) {
        end = std::find_if(begin, hashes.end(), [&](const auto& one) { return one.first != begin->first; });
        if (end - begin < 2) continue;
        pairs += (end - begin) * (end - begin - 1) / 2;
        std::partial_sort(begin, begin + 2, end, [&](const auto& a, const auto& b) {  // the commonest first
            return std::pair(-rows_of(a.second), a.second) < std::pair(-rows_of(b.second), b.second);
        });
        if (rows_of(begin[1].second) <= rows_of_example) continue;
        rows_of_example = rows_of(begin[1].second);
        example = {begin[0].second, begin[1].second};
    }
    if (pairs == 0) return {};
    return fmt::format(
        "{} of labels {} only in case, blanks or Unicode form, such as '{}' ({}) and '{}' ({}): they stay "
        "different "
        "labels; where they mean the same, write them alike",
        counted(pairs, "pair"), pairs == 1 ? "differs" : "differ", quoted(data.label_name(example.first)),
        counted(rows_of(example.first), "row"), quoted(data.label_name(example.second)),
        with_commas(rows_of(example.second)));
}

// The first line of a TSV without a header, where it looks like one: two words, of which no other row has the
// second as its labels, before texts of several words.
std::optional<std::vector<std::string>> swallowed_header(const Layout& layout) {
    constexpr std::size_t kRows = 2000, kFewRows = 20;
    if (has_named_columns(layout)) return std::nullopt;
    const TableShape shape = find_table_shape(layout.train.text, layout);
    const SampleRows rows = sample_rows(layout.train.text, shape, kRows);
    if (rows.size() < kFewRows || rows[0].size() != 2) return std::nullopt;
    const auto is_word = [](std::string_view field) {
        return !field.empty() && field.size() <= 30 && field.find_first_of(" ;|,") == field.npos;
    };
    if (!is_word(rows[0][0]) || !is_word(rows[0][1])) return std::nullopt;
    std::size_t several_words = 0;
    for (std::size_t i = 1; i < rows.size(); ++i) {
        if (rows[i].size() != 2) continue;
        if (rows[i][1].find(rows[0][1]) != std::string::npos) return std::nullopt;
        several_words += trim(rows[i][0]).find(' ') != std::string_view::npos;
    }
    if (10 * several_words < 9 * (rows.size() - 1)) return std::nullopt;
    return rows[0];
}

// Columns that '*' leaves out although most of their fields are 0 and 1, each with a field that is neither.
std::vector<std::pair<std::string, std::string>> nearly_flags(const Layout& layout) {
    std::vector<std::pair<std::string, std::string>> found;
    if (layout.format == DataFormat::kJsonl || layout.label_column != "*") return found;
    const TableShape shape = find_table_shape(layout.train.text, layout);
    const SampleRows rows = sample_rows(layout.train.text, shape, 200);
    const auto is_read = [&](std::size_t at) {
        return std::ranges::count(shape.text, at) + std::ranges::count(shape.labels, at) > 0;
    };
    for (std::size_t i = 0; i < shape.names.size(); ++i) {
        std::size_t flags = 0;
        bool set = false;
        std::string other;
        for (const auto& row : rows) {
            if (i >= row.size()) continue;
            flags += is_flag(row[i], shape.flags);
            set = set || is_set_flag(row[i], shape.flags);
            if (other.empty() && !is_flag(row[i], shape.flags)) other = row[i];
        }
        if (!is_read(i) && set && 2 * flags > rows.size()) found.emplace_back(shape.names[i], other);
    }
    return found;
}

}  // namespace

int strangeness(std::string_view name) {
    if (is_end_of_list(name) || is_in_quotes(name)) return 6;
    if (is_null_word(name)) return 5;
    const auto is_word = [](unsigned char c) { return std::isalnum(c) != 0 || c >= 0x80; };
    if (std::none_of(name.begin(), name.end(), is_word)) return 4;
    if (name.find_first_of("\n\t\r") != name.npos) return 3;
    if (name.size() > 100) return 2;
    return name.find_first_of(";|,") != name.npos ? 1 : 0;
}

std::vector<std::string> label_doubts(const Dataset& data, const Layout& layout) {
    std::vector<std::string> doubts;
    const bool has_fields = layout.format == DataFormat::kTsv || layout.format == DataFormat::kCsv ||
                            layout.format == DataFormat::kJsonl;
    if (!data.has_label_names()) return doubts;
    if (layout.format == DataFormat::kFastText)
        if (std::string joint = fasttext_doubt(data); !joint.empty()) doubts.push_back(std::move(joint));
    if (!has_fields) {
        if (std::string alike = likeness_doubt(data); !alike.empty()) doubts.push_back(std::move(alike));
        return doubts;
    }
    const Tally tally = tally_names(data);
    const std::string labels = with_commas(data.num_labels());
    const std::int64_t pieces = tally.ends_of_lists + tally.in_quotes;
    // Separators and flags are for fields of text: in a list they are part of a name like others.
    const bool in_columns = layout.format != DataFormat::kJsonl && layout.label_column.ends_with('*');
    const bool in_lists = layout.cells.lists || in_columns || !has_label_fields(layout);
    const bool lists = tally.ends_of_lists > 0 && 2 * pieces >= data.num_labels();
    // Texts and labels from memory are written by these names: they have no columns.
    const std::string_view column =
        is_row_folder(layout.data.string()) && layout.label_column == Config{}.label_column
            ? ""
            : ": is --label-column the column of the labels?";
    if (tally.ends_of_dictionaries > 0 && (!in_lists || lists))
        doubts.push_back(fmt::format(
            "{} of {} labels look like pieces of a dictionary, such as '{}': write the labels of each "
            "row as a list like [\"a\", \"b\"]",
            with_commas(pieces), labels, quoted(tally.piece)));
    else if (tally.ends_of_lists > 0 && (!in_lists || lists))
        doubts.push_back(fmt::format("{} of {} labels look like pieces of a list, such as '{}': {}",
                                     with_commas(pieces), labels, quoted(tally.piece),
                                     in_lists ? "write each label as an item of its row's list"
                                              : "where label fields are lists like ['a', 'b'], read them "
                                                "with --label-separator list"));
    const std::size_t weak = lists ? 0 : doubts.size();  // few pieces of lists are not why labels are many
    const bool one_a_row = is_one_label_a_row(data, tally);
    const bool none_given = layout.cells.given && layout.cells.name() == "none";
    for (std::size_t i = 0; i < kSeparators.size() && !lists && !none_given; ++i) {
        // Half of all names is no accident; less is, unless hardly two rows have the same label, or the
        // pieces are labels elsewhere.
        if (data.num_labels() < 2) continue;
        if ((one_a_row ? 5 : 2) * tally.with[i] < data.num_labels() &&
            (in_lists || layout.cells.given || !are_joined(data, tally, i)))
            continue;
        if (kSeparators[i] == '/' && !one_a_row) continue;
        const std::string separator = kSeparators[i] == '\t' ? "$'\\t'" : fmt::format("'{}'", kSeparators[i]);
        doubts.push_back(fmt::format("{} of {} labels hold {}: where it stands between labels, {}",
                                     with_commas(tally.with[i]), labels, separator,
                                     in_lists ? "write each label as an item of its row's list"
                                              : "give --label-separator " + separator));
    }
    if (doubts.empty() && !in_lists && !layout.cells.given)
        if (std::string joint = joint_doubt(data); !joint.empty()) doubts.push_back(std::move(joint));
    if (one_a_row && doubts.size() == weak)
        doubts.push_back(fmt::format(
            "{} labels for {} rows, {} of them labels of one row{}", labels, with_commas(data.train().rows()),
            with_commas(tally.rare),
            !has_named_columns(layout) ? ": where the labels come before the text, give --columns labels,text"
            : layout.cells.given || in_lists
                ? column
                : ": is --label-column the column of the labels, and --label-separator what stands between "
                  "them?"));
    if (!in_lists && !layout.cells.separator.empty() && !layout.cells.given && doubts.empty())
        if (const auto piece = piece_of_name(data))
            doubts.push_back(
                fmt::format("rows with several labels have some that no row has alone, such as '{}': where "
                            "'{}' is part of "
                            "a name, give --label-separator none",
                            quoted(*piece), layout.cells.separator));
    if (std::string alike = likeness_doubt(data); !alike.empty()) doubts.push_back(std::move(alike));
    for (const std::string& key : missing_text_keys(layout))
        doubts.push_back(
            fmt::format("no text of the first rows has the key {}: is --text-column right?", key));
    for (const auto& [name, field] : nearly_flags(layout))
        doubts.push_back(fmt::format(
            "the column '{}' is no label, since it holds '{}' beside 0 and 1: where it is one, mend such "
            "fields",
            quoted(name), quoted(field)));
    if (const auto header = swallowed_header(layout))
        doubts.push_back(fmt::format(
            "the first row, '{0}' with the label '{1}', looks like a header: where it is one, give "
            "--text-column {2} --label-column {3}",
            quoted((*header)[0]), quoted((*header)[1]), shell_word((*header)[0]), shell_word((*header)[1])));
    std::vector<std::string> null_words;
    for (const std::int64_t label : tally.null_words)
        null_words.push_back(fmt::format("'{}' is a label of {}", data.label_name(label),
                                         counted(rows_with(label, data, layout), "row")));
    if (!null_words.empty())
        doubts.push_back(fmt::format("{}: where it means that there is none, {}", fmt::join(null_words, ", "),
                                     in_lists || layout.cells.allow_null || !has_null_fields(layout)
                                         ? "leave it out"
                                         : "give --allow-null-labels"));
    std::int64_t unlabelled = 0;
    for (std::int64_t row = 0; row < data.train().rows(); ++row)
        unlabelled += data.train().labels.row(row).empty() ? 1 : 0;
    if (2 * unlabelled > data.train().rows())
        doubts.push_back(fmt::format("{} of {} rows have no labels{}", with_commas(unlabelled),
                                     with_commas(data.train().rows()), column));
    return doubts;
}

}  // namespace elmo
