// The labels of one text as a line of JSON: what `elmo predict --json` prints and `--out` keeps.
#include "elmo/predictor.h"

namespace elmo {

std::string to_json(const std::string& file, std::int64_t line, const std::vector<Prediction>& predictions) {
    Answer answer;
    answer.file = file;
    answer.line = line;
    answer.labels = predictions;
    return to_json(answer);
}

}  // namespace elmo
