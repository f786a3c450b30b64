#include "sources/tables/json_rows.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>

#include "base/text_util.h"
#include "sources/tables/label_fields.h"

namespace elmo {
namespace dom = simdjson::dom;

namespace {

std::string show(const dom::element& value) {
    return fmt::format("'{}'", quoted(simdjson::minify(value)));
}

std::string keys_of(const dom::object& object) {
    std::string list;
    for (const auto& field : object) {
        if (list.size() > 100) return list + ", ...";
        list += fmt::format("{}'{}'", list.empty() ? "" : ", ", quoted(field.key));
    }
    return list.empty() ? "none" : list;
}

}  // namespace

struct JsonRows::Impl {
    dom::parser parser;

    dom::object parse(const Record& record) {
        if (record.bytes.find_first_not_of(" \t") == record.bytes.npos)
            fail(record, "a JSON object", "an empty line");
        dom::element root;
        const auto error = parser.parse(record.bytes.data(), record.bytes.size()).get(root);
        if (error != simdjson::SUCCESS)
            fail(record, "a JSON object",
                 fmt::format("'{}' ({})", quoted(record.bytes), simdjson::error_message(error)));
        dom::object object;
        if (root.get(object) != simdjson::SUCCESS)
            fail(record, "a JSON object", show(root),
                 root.is_array() ? "write the array's objects one a line, as 'jq -c .[]' does" : "");
        return object;
    }

    dom::element value(const Record& record, const dom::object& object, const std::string& key) {
        dom::element found;
        if (object.at_key(key).get(found) != simdjson::SUCCESS)
            fail(record, fmt::format("the key '{}'", key), "the keys " + keys_of(object));
        return found;
    }
};

JsonRows::JsonRows() : impl_(std::make_unique<Impl>()) {}
JsonRows::~JsonRows() = default;

void JsonRows::text(const Record& record, const std::vector<std::string>& keys, std::string& out) {
    out.clear();
    const dom::object object = impl_->parse(record);
    for (const std::string& key : keys) {
        dom::element value;
        if (&key == &keys.front()) {
            value = impl_->value(record, object, key);
        } else if (object.at_key(key).get(value) != simdjson::SUCCESS || value.is_null()) {
            continue;
        }
        std::string_view piece;
        if (value.get(piece) != simdjson::SUCCESS)
            fail(record, fmt::format("a string at '{}'", key), show(value));
        if (!out.empty() && !piece.empty()) out += ' ';
        out += piece;
    }
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

void JsonRows::label_names(const Record& record, const std::string& key, const std::string& separator,
                           std::vector<std::string>& out) {
    out.clear();
    const dom::element value = impl_->value(record, impl_->parse(record), key);
    const auto take = [&](const dom::element& item) {
        std::string_view name;
        if (item.get(name) == simdjson::SUCCESS) {
            if (!name.empty()) out.emplace_back(name);
        } else if (item.is_int64() || item.is_uint64()) {
            out.push_back(simdjson::minify(item));
        } else {
            fail(record, fmt::format("labels at '{}' that are strings or whole numbers", key), show(item));
        }
    };
    dom::array list;
    std::string_view field;
    if (value.get(list) == simdjson::SUCCESS) {
        for (const dom::element item : list) take(item);
    } else if (value.get(field) == simdjson::SUCCESS) {
        split_labels(field, separator, out);
    } else {
        take(value);
    }
}

}  // namespace elmo
