// The labels of one text as a line of JSON: what `elmo predict --json` prints and `--out` keeps.
#include "elmo/fields.h"
#include "elmo/predictor.h"

namespace elmo {

std::string to_json(const std::string& file, std::int64_t line, const std::vector<Prediction>& predictions) {
    return to_json(FieldGroup{[&](auto&& visit) {
        if (!file.empty()) visit("file", file);
        visit("line", line);
        visit("labels", predictions);
    }});
}

}  // namespace elmo
