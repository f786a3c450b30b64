#include "formats/safetensors_header.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/text_util.h"
#include "formats/json_text.h"
#include "io/file_error.h"

namespace elmo {
namespace {

using nlohmann::json;

// The value that the parser expects next. key() handles keys; everything else must match this.
enum class Expect {
    kHeader,        // the outermost object
    kEntry,         // the object of one tensor
    kMetadata,      // the object of metadata
    kMetadataText,  // a string inside it
    kDType,
    kShape,
    kDimension,
    kOffsets,
    kOffset,
    kKey,
};

class HeaderEvents : public nlohmann::json_sax<json> {
  public:
    HeaderEvents(const std::string& file, SafeTensorsHeader& header) : file_(file), header_(header) {}

    bool null() override { return refuse("null"); }
    bool boolean(bool) override { return refuse("true or false"); }
    bool number_integer(number_integer_t) override { return refuse("a negative number"); }
    bool number_float(number_float_t, const string_t& text) override { return refuse(text); }
    bool binary(binary_t&) override { return refuse("binary data"); }

    bool number_unsigned(number_unsigned_t value) override {
        if (expect_ != Expect::kDimension && expect_ != Expect::kOffset) return refuse(std::to_string(value));
        if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
            return refuse(std::to_string(value));
        if (expect_ == Expect::kDimension) {
            entry().shape.push_back(static_cast<std::int64_t>(value));
        } else {
            if (num_offsets_ == 2) fail("expected two data_offsets, found more");
            (num_offsets_++ == 0 ? entry().begin : entry().end) = static_cast<std::int64_t>(value);
        }
        return true;
    }

    bool string(string_t& text) override {
        if (expect_ == Expect::kDType) {
            entry().dtype = text;
        } else if (expect_ == Expect::kMetadataText) {
            if (!header_.metadata.emplace(metadata_key_, text).second)
                fail(fmt::format("metadata '{}' is there twice", quoted(metadata_key_)));
        } else {
            return refuse(fmt::format("the text '{}'", quoted(text)));
        }
        expect_ = Expect::kKey;
        return true;
    }

    bool start_object(std::size_t) override {
        if (expect_ == Expect::kMetadata) {
            in_metadata_ = true;
        } else if (expect_ == Expect::kEntry) {
            in_entry_ = true;
            has_dtype_ = has_shape_ = has_offsets_ = false;
        } else if (expect_ != Expect::kHeader) {
            return refuse("an object");
        }
        expect_ = Expect::kKey;
        return true;
    }

    bool key(string_t& name) override {
        if (in_metadata_) {
            metadata_key_ = name;
            expect_ = Expect::kMetadataText;
        } else if (in_entry_) {
            if (name == "dtype") return begin_field(has_dtype_, Expect::kDType, name);
            if (name == "shape") return begin_field(has_shape_, Expect::kShape, name);
            if (name == "data_offsets") return begin_field(has_offsets_, Expect::kOffsets, name);
            fail(fmt::format("expected dtype, shape and data_offsets, found '{}'", quoted(name)));
        } else if (name == "__metadata__") {
            if (has_metadata_) fail("__metadata__ is there twice");
            has_metadata_ = true;
            expect_ = Expect::kMetadata;
        } else {
            header_.entries.push_back({name, "", {}, 0, 0});
            expect_ = Expect::kEntry;
        }
        return true;
    }

    bool end_object() override {
        if (in_entry_ && !(has_dtype_ && has_shape_ && has_offsets_))
            fail("expected dtype, shape and data_offsets, found only some of them");
        in_entry_ = in_metadata_ = false;
        expect_ = Expect::kKey;
        return true;
    }

    bool start_array(std::size_t) override {
        if (expect_ == Expect::kShape) {
            expect_ = Expect::kDimension;
        } else if (expect_ == Expect::kOffsets) {
            expect_ = Expect::kOffset;
            num_offsets_ = 0;
        } else {
            return refuse("a list");
        }
        return true;
    }

    bool end_array() override {
        if (expect_ == Expect::kOffset && num_offsets_ != 2)
            fail(fmt::format("expected two data_offsets, found {}", num_offsets_));
        expect_ = Expect::kKey;
        return true;
    }

    bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
        throw DataError(
            fmt::format("{}: expected a JSON header, found an error at {}", file_, json_reason(error)));
    }

  private:
    HeaderEntry& entry() { return header_.entries.back(); }

    bool begin_field(bool& seen, Expect next, std::string_view name) {
        if (seen) fail(fmt::format("{} is there twice", name));
        seen = true;
        expect_ = next;
        return true;
    }

    [[noreturn]] void fail(std::string_view message) const {
        if (in_entry_ || expect_ == Expect::kEntry)
            throw DataError(fmt::format("{}: header: tensor '{}': {}", file_,
                                        quoted(header_.entries.back().name), message));
        throw DataError(fmt::format("{}: header: {}", file_, message));
    }

    bool refuse(std::string_view found) const {
        const char* wanted = "an object of tensors";
        if (expect_ == Expect::kEntry) wanted = "an object";
        if (expect_ == Expect::kMetadata) wanted = "an object of strings as __metadata__";
        if (expect_ == Expect::kMetadataText) wanted = "strings in __metadata__";
        if (expect_ == Expect::kDType) wanted = "a string as dtype";
        if (expect_ == Expect::kShape) wanted = "a list as shape";
        if (expect_ == Expect::kDimension) wanted = "whole numbers from 0 as shape";
        if (expect_ == Expect::kOffsets) wanted = "a list as data_offsets";
        if (expect_ == Expect::kOffset) wanted = "whole numbers from 0 as data_offsets";
        fail(fmt::format("expected {}, found {}", wanted, quoted(found)));
    }

    const std::string& file_;
    SafeTensorsHeader& header_;
    Expect expect_ = Expect::kHeader;
    bool in_entry_ = false, in_metadata_ = false, has_metadata_ = false;
    bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
    int num_offsets_ = 0;
    std::string metadata_key_;
};

}  // namespace

SafeTensorsHeader parse_safetensors_header(std::string_view text, const std::string& file) {
    // The JSON library takes a zero byte for the end of the text.
    if (!text.starts_with('{') || text.find('\0') != std::string_view::npos)
        throw DataError(
            fmt::format("{}: expected a JSON object as header, found '{}'", file, quoted(text, 20)));
    SafeTensorsHeader header;
    HeaderEvents events(file, header);
    json::sax_parse(text, &events);
    return header;
}

}  // namespace elmo
