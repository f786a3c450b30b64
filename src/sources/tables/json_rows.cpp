#include "sources/tables/json_rows.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <optional>

#include "base/text_util.h"
#include "sources/records/record_reader.h"
#include "sources/tables/label_fields.h"

namespace elmo {
namespace dom = simdjson::dom;

namespace {

std::string show(const dom::element& value) {
    return fmt::format("'{}'", quoted(simdjson::minify(value)));
}

// An escape of a UTF-16 surrogate, of which JSON may have pairs.
bool has_half_character(std::string_view line) {
    for (std::size_t at = line.find("\\u"); at != line.npos; at = line.find("\\u", at + 1))
        if (line.size() > at + 3 && (line[at + 2] | 0x20) == 'd' &&
            std::string_view("89abcdefABCDEF").find(line[at + 3]) != std::string_view::npos)
            return true;
    return false;
}

std::string keys_of(const dom::object& object) {
    std::string list;
    for (const auto& field : object) {
        if (list.size() > 100) return list + ", ...";
        list += fmt::format("{}'{}'", list.empty() ? "" : ", ", quoted(field.key));
    }
    return list.empty() ? "none" : list;
}

// All that may be asked for: keys, and with dots those inside of objects, or of the first one of a list.
std::vector<std::string> paths_of(const dom::object& object) {
    std::vector<std::string> paths;
    for (const auto& field : object) {
        paths.emplace_back(field.key);
        dom::element value = field.value;
        if (dom::array list; value.get(list) == simdjson::SUCCESS && list.size() > 0) value = list.at(0);
        if (dom::object inner; value.get(inner) == simdjson::SUCCESS)
            for (const std::string& path : paths_of(inner))
                paths.push_back(fmt::format("{}.{}", field.key, path));
    }
    return paths;
}

// What is on the way to values: with a list, each of them is an item, and no field of several.
enum class Way { kObjects, kList, kEmptyList };

// The value at a key, or where no key is called so, at the path that its dots make. A list on the way gives
// the values inside its objects. Nothing is added where the path ends early. With a record a key that stands
// twice is a DataError.
Way find_values(const dom::object& object, std::string_view key, std::vector<dom::element>& out,
                const Record* record = nullptr) {
    dom::element value;
    const auto refuse_repeated = [&](std::string_view name) {
        if (record != nullptr && std::count_if(object.begin(), object.end(),
                                               [&](const auto& field) { return field.key == name; }) > 1)
            fail(*record, "each key once", fmt::format("'{}' twice", quoted(name)),
                 "rename or remove one of them");
    };
    if (object.at_key(key).get(value) == simdjson::SUCCESS) {
        refuse_repeated(key);
        out.push_back(value);
        return Way::kObjects;
    }
    const std::size_t dot = key.find('.');
    if (dot == key.npos || object.at_key(key.substr(0, dot)).get(value) != simdjson::SUCCESS)
        return Way::kObjects;
    refuse_repeated(key.substr(0, dot));
    const std::string_view rest = key.substr(dot + 1);
    dom::object inner;
    dom::array list;
    if (value.get(inner) == simdjson::SUCCESS) return find_values(inner, rest, out, record);
    if (value.get(list) != simdjson::SUCCESS) return Way::kObjects;
    for (const dom::element item : list)
        if (item.get(inner) == simdjson::SUCCESS) find_values(inner, rest, out, record);
    return list.size() == 0 ? Way::kEmptyList : Way::kList;
}

}  // namespace

struct JsonRows::Impl {
    dom::parser parser;

    dom::object parse(const Record& record) {
        if (record.bytes.find_first_not_of(" \t") == record.bytes.npos)
            fail(record, "a JSON object", "an empty line", "remove it");
        dom::element root;
        const auto error = parser.parse(record.bytes.data(), record.bytes.size()).get(root);
        constexpr std::string_view kArray = "write the array's objects one a line, as 'jq -c .[]' does";
        constexpr std::string_view kObject = "write each object on a line of its own, as 'jq -c .' does";
        constexpr std::string_view kQuotes = "JSON has double quotes, as Python's json.dumps writes them";
        constexpr std::string_view kComma = "remove the comma at the end of each line";
        constexpr std::string_view kNumbers = "numbers beyond 64 bits are not read: write them as strings";
        constexpr std::string_view kHalf =
            "a \\u escape of half a character, which no text holds: write U+FFFD (\\ufffd) there";
        // Parts of a document that goes over many lines.
        const std::string_view line = trim(record.bytes);
        if (error != simdjson::SUCCESS)
            fail(record, "a JSON object",
                 fmt::format("'{}' ({})", quoted(record.bytes), simdjson::error_message(error)),
                 line.starts_with('[')                                         ? kArray
                 : line == "{"                                                 ? kObject
                 : line.starts_with("{'")                                      ? kQuotes
                 : line.ends_with("},")                                        ? kComma
                 : error == simdjson::STRING_ERROR && has_half_character(line) ? kHalf
                 : error == simdjson::NUMBER_ERROR                             ? kNumbers
                                                                               : std::string_view());
        dom::object object;
        if (root.get(object) != simdjson::SUCCESS)
            fail(record, "a JSON object", show(root), root.is_array() ? kArray : std::string_view());
        return object;
    }

    [[noreturn]] void refuse_missing(const Record& record, const dom::object& object, const std::string& key,
                                     std::string_view advice) {
        const std::vector<std::string> paths = paths_of(object);
        fail(record,
             fmt::format("the key '{}'{}", key,
                         columns_inside(key, paths).empty() ? did_you_mean(key, paths) : std::string()),
             "the keys " + keys_of(object), advice);
    }

    dom::element value(const Record& record, const dom::object& object, const std::string& key,
                       std::string_view advice = {}) {
        std::vector<dom::element> found;
        find_values(object, key, found, &record);
        if (found.empty()) refuse_missing(record, object, key, advice);
        if (found.size() > 1)
            fail(record, fmt::format("one value at '{}'", key), fmt::format("{} in a list", found.size()));
        return found[0];
    }

    // Nothing for a record that is no object.
    std::optional<dom::object> try_parse(const Record& record) {
        dom::object object;
        if (parser.parse(record.bytes.data(), record.bytes.size()).get(object) != simdjson::SUCCESS)
            return std::nullopt;
        return object;
    }
};

JsonRows::JsonRows() : impl_(std::make_unique<Impl>()) {}
JsonRows::~JsonRows() = default;

void JsonRows::text(const Record& record, const std::vector<std::string>& keys, std::string& out) {
    out.clear();
    const dom::object object = impl_->parse(record);
    const auto append = [&](const std::string& key, const dom::element& value) {
        std::string_view piece;
        if (value.get(piece) != simdjson::SUCCESS)
            fail(record, fmt::format("a string at '{}'", key), show(value),
                 value.is_object()
                     ? fmt::format("name a key inside with --text-column {}", shell_word(key + ".KEY"))
                     : "write it as a string, or name another key with --text-column");
        if (!out.empty() && !piece.empty()) out += ' ';
        out += piece;
    };
    std::vector<dom::element> found;
    for (const std::string& key : keys) {
        found.clear();
        const Way way = find_values(object, key, found, &record);
        const bool first = &key == &keys.front();
        if (first && found.empty() && way != Way::kEmptyList) {
            const std::string joined = joining_advice(keys, paths_of(object), "key");
            impl_->refuse_missing(record, object, key,
                                  joined.empty() ? "name the key of the texts with --text-column" : joined);
        }
        for (const dom::element& value : found) {
            dom::array list;
            if (value.get(list) == simdjson::SUCCESS) {
                for (const dom::element item : list)
                    if (!item.is_null()) append(key, item);
            } else if (!value.is_null() || (first && way == Way::kObjects)) {
                append(key, value);
            }
        }
    }
}

JsonRows::Scalar JsonRows::scalar(const Record& record, const std::string& key, bool needed,
                                  std::string& out) {
    out.clear();
    const dom::object object = impl_->parse(record);
    dom::element value;
    if (needed)
        value = impl_->value(record, object, key);
    else if (object.at_key(key).get(value) != simdjson::SUCCESS)
        return Scalar::kText;
    std::string_view text;
    if (value.get(text) == simdjson::SUCCESS) {
        out = text;
        return Scalar::kText;
    }
    const bool is_list = value.is_array() || value.is_object();
    if (is_list && needed) fail(record, fmt::format("a string or a number at '{}'", key), show(value));
    if (is_list) return Scalar::kNone;
    if (value.is_null()) return Scalar::kText;
    out = simdjson::minify(value);
    return value.is_int64() || value.type() == dom::element_type::DOUBLE ? Scalar::kNumber : Scalar::kText;
}

void JsonRows::label_ids(const Record& record, const std::string& key, std::int64_t num_labels, bool merge,
                         std::vector<std::uint32_t>& out, ImportCounts& counts) {
    out.clear();
    const dom::element value = impl_->value(record, impl_->parse(record), key);
    dom::array list;
    if (value.get(list) != simdjson::SUCCESS)
        fail(record, fmt::format("a list of label numbers at '{}'", key), show(value));
    for (const dom::element item : list) {
        std::int64_t label = 0;
        if (item.get(label) != simdjson::SUCCESS || label < 0 || label >= num_labels)
            fail(record, fmt::format("label numbers from 0 to {} at '{}'", num_labels - 1, key), show(item));
        out.push_back(static_cast<std::uint32_t>(label));
    }
    std::sort(out.begin(), out.end());
    const auto end = std::unique(out.begin(), out.end());
    if (end != out.end() && !merge)
        fail(record, "every label once", fmt::format("a repeated one in {}", show(value)),
             "merge repeated ones with --allow-repeated-labels");
    counts.merged_labels += out.end() - end;
    out.erase(end, out.end());
}

void JsonRows::label_names(const Record& record, const std::string& key, const LabelCells& cells,
                           std::vector<std::string>& out, ImportCounts& counts) {
    static constexpr std::string_view kNullAdvice =
        "count such rows as without labels with --allow-null-labels";
    static constexpr std::string_view kMissingAdvice =
        "name the key of the labels with --label-column, or count such rows as without labels with "
        "--allow-null-labels";
    static constexpr std::string_view kFlagsAdvice =
        "columns of 0 and 1 are read of tables: write the labels of each row as a list like [\"a\", \"b\"], "
        "or "
        "all rows as CSV";
    out.clear();
    const dom::object object = impl_->parse(record);
    std::vector<dom::element> found;
    const Way way = find_values(object, key, found, &record);
    bool missing = found.empty() && way != Way::kEmptyList;  // which is a row without labels, like any other
    if (missing && !cells.allow_null) {
        const std::string one = one_column_advice(key, paths_of(object), "key");
        impl_->refuse_missing(record, object, key,
                              key.ends_with('*') ? kFlagsAdvice
                              : one.empty()      ? kMissingAdvice
                                                 : std::string_view(one));
    }
    const auto take = [&](const dom::element& item) {
        std::string_view name;
        if (item.get(name) == simdjson::SUCCESS) {
            if (name = trim(name); !name.empty()) out.emplace_back(name);
        } else if (item.is_int64() || item.is_uint64()) {
            out.push_back(simdjson::minify(item));
        } else if (item.is_null() && cells.allow_null) {
            missing = true;
        } else {
            fail(record, fmt::format("labels at '{}' that are strings or whole numbers", key), show(item),
                 item.is_null() ? std::string(kNullAdvice)
                 : item.is_object()
                     ? fmt::format("name a key inside with --label-column {}; where the keys are "
                                   "the labels, write them as a list like [\"a\", \"b\"]",
                                   shell_word(key + ".KEY"))
                 : item.is_array() ? "write the labels of a row as one list like [\"a\", \"b\"]"
                                   : "write each label as a string, or name another key with --label-column");
        }
    };
    for (const dom::element& value : found) {
        dom::array list;
        std::string_view field;
        if (value.get(list) == simdjson::SUCCESS) {
            for (const dom::element item : list) take(item);
        } else if (way == Way::kObjects && value.get(field) == simdjson::SUCCESS) {
            read_label_field(record, field, cells, out, counts);
        } else {
            take(value);
        }
    }
    counts.null_labels += missing;
}

std::vector<std::string> JsonRows::keys(const Record& record) {
    std::vector<std::string> names;
    if (const auto object = impl_->try_parse(record))
        for (const auto& field : *object) names.emplace_back(field.key);
    return names;
}

std::vector<std::string> JsonRows::paths(const Record& record) {
    const auto object = impl_->try_parse(record);
    return object ? paths_of(*object) : std::vector<std::string>();
}

bool JsonRows::has(const Record& record, const std::string& key) {
    std::vector<dom::element> found;
    if (const auto object = impl_->try_parse(record)) find_values(*object, key, found);
    return !found.empty();
}

bool JsonRows::holds_columns(const Record& record, const std::string& text_key,
                             const std::string& label_key) {
    constexpr std::size_t kMostOfARow = 20;
    const auto object = impl_->try_parse(record);
    dom::array texts, labels;
    dom::object rows;
    if (!object) return false;
    if ((*object)[text_key].get(rows) == simdjson::SUCCESS) return rows["0"].error() == simdjson::SUCCESS;
    return (*object)[text_key].get(texts) == simdjson::SUCCESS &&
           (*object)[label_key].get(labels) == simdjson::SUCCESS && texts.size() > kMostOfARow &&
           texts.size() == labels.size();
}

std::string JsonRows::string_at(const Record& record, const std::string& key) {
    std::vector<dom::element> found;
    const auto object = impl_->try_parse(record);
    const bool items = object && find_values(*object, key, found) != Way::kObjects;
    std::string_view text;
    if (items || found.size() != 1 || found[0].get(text) != simdjson::SUCCESS) return {};
    return std::string(text);
}

void visit_json(const Layout& layout, const std::filesystem::path& file, std::size_t most,
                const std::function<bool(const Record&)>& visit) {
    constexpr std::size_t kMostBytes = std::size_t{4} << 20;
    RecordReader reader(file, Framing::kObjects);
    std::string storage;
    ImportCounts counts;
    for (std::size_t i = 0, bytes = 0; i < most && bytes < kMostBytes; ++i) {
        auto record = reader.next();
        if (!record) return;
        bytes += record->bytes.size();
        record->bytes = valid_utf8(*record, {layout.table.latin1, true}, storage, counts);
        if (!visit(*record)) return;
    }
}

}  // namespace elmo
