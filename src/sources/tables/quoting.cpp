#include "sources/tables/quoting.h"

#include <algorithm>

#include "elmo/error.h"
#include "io/line_reader.h"

namespace elmo {
namespace {

constexpr std::size_t kBytes = std::size_t{4} << 20;

// The rules of CSV, followed character by character; says where they do not hold.
class QuoteWatch {
  public:
    explicit QuoteWatch(char delimiter) : delimiter_(delimiter) {}

    void line(std::string_view text) {
        const auto fields = std::count(text.begin(), text.end(), delimiter_) + 1;
        if (!state_.any) state_.fields = fields;
        lines_are_rows_ = lines_are_rows_ && fields == state_.fields;
        state_.any = true;
        if (in_quotes_)
            state_.spans = true;
        else
            begin_field();
        for (std::size_t i = 0; i < text.size(); ++i) i += step(text, i);
        if (!in_quotes_) end_field();
    }

    bool broken() const { return broken_; }
    bool quoted() const {
        const bool whole = !in_quotes_;
        return !broken_ && whole && any_quoted_ &&
               (state_.doubled || all_quoted_ || (state_.spans && !lines_are_rows_));
    }

  private:
    // What is at `i`; returns how many more characters belong to it.
    std::size_t step(std::string_view text, std::size_t i) {
        const char c = text[i];
        if (in_quotes_) {
            if (c == delimiter_) state_.spans = true;
            if (c != '"') return 0;
            if (i + 1 < text.size() && text[i + 1] == '"') {
                state_.doubled = true;
                return 1;
            }
            in_quotes_ = false;
            closed_ = true;
        } else if (c == delimiter_) {
            end_field();
            begin_field();
        } else if (c == '"') {
            broken_ = broken_ || !at_start_;
            in_quotes_ = at_start_;
            any_quoted_ = true;
            at_start_ = false;
            field_quoted_ = true;
        } else {
            broken_ = broken_ || closed_;
            at_start_ = false;
        }
        return 0;
    }
    void begin_field() {
        at_start_ = true;
        closed_ = field_quoted_ = false;
    }
    void end_field() { all_quoted_ = all_quoted_ && field_quoted_; }

    char delimiter_;
    bool in_quotes_ = false, at_start_ = true, closed_ = false, field_quoted_ = false;
    bool broken_ = false, any_quoted_ = false, all_quoted_ = true, lines_are_rows_ = true;
    struct {
        bool any = false, doubled = false, spans = false;
        std::ptrdiff_t fields = 0;  // of the first line
    } state_;
};

}  // namespace

bool looks_quoted(const std::filesystem::path& file, char delimiter) {
    QuoteWatch watch(delimiter);
    std::size_t bytes = 0;
    bool quoted = false;
    try {
        LineReader lines(file);
        while (bytes < kBytes) {
            const auto line = lines.next_line();
            if (!line) return watch.quoted();
            bytes += line->size() + 1;
            watch.line(*line);
            // A record may go on behind what is looked at: the last one that ended decides.
            quoted = watch.quoted() || (quoted && !watch.broken());
        }
    } catch (const DataError&) {  // the import says it better
    }
    return quoted;
}

}  // namespace elmo
