#include "rank/question/answer_scope.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "elmo/error.h"
#include "rank/label_list.h"

namespace elmo {
namespace {

// Up to this many labels are left out by ranking that many more; above, the other labels are gathered.
constexpr std::int64_t kRankedMore = 1024;

using Labels = std::vector<std::int64_t>;

Labels listed(const std::string& file, const std::vector<std::string>& list, const char* what,
              const std::vector<std::string_view>& names, std::int64_t labels) {
    return file.empty() ? find_labels(list, what, names, labels) : read_label_list(file, names, labels);
}

Labels difference(const Labels& a, const Labels& b) {
    Labels result;
    std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(result));
    return result;
}

Labels joined(const Labels& a, const Labels& b) {
    Labels result;
    std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(result));
    return result;
}

void require_answers(const AnswerScope& scope, const std::string& where) {
    if (scope.answers() == 0)
        throw DataError(fmt::format("{}: expected a label to be left to answer with, found none", where));
}

}  // namespace

AnswerScope resolve_scope(const LabelScope& given, const std::vector<std::string_view>& names,
                          std::int64_t labels) {
    AnswerScope scope;
    Labels without;
    if (given.leaves_out()) without = listed(given.without, given.without_list, "without", names, labels);
    if (given.chooses()) {
        scope.gathered = true;
        scope.rows = difference(listed(given.labels, given.label_list, "labels", names, labels), without);
    } else if (static_cast<std::int64_t>(without.size()) > kRankedMore) {
        scope.gathered = true;
        scope.rows = all_labels_but(without, labels);
    } else {
        scope.dropped = std::move(without);
    }
    scope.labels = scope.gathered ? static_cast<std::int64_t>(scope.rows.size()) : labels;
    require_answers(scope, given.without.empty() ? "without" : given.without);
    return scope;
}

AnswerScope narrow_scope(const AnswerScope& scope, const Question& question, std::int64_t room) {
    AnswerScope result = scope;
    if (!question.labels.empty()) {
        result.gathered = true;
        result.rows.clear();
        if (scope.gathered)
            std::set_intersection(question.labels.begin(), question.labels.end(), scope.rows.begin(),
                                  scope.rows.end(), std::back_inserter(result.rows));
        else
            result.rows = question.labels;
        result.rows = difference(result.rows, joined(scope.dropped, question.without));
        result.dropped.clear();
    } else if (!question.without.empty()) {
        if (static_cast<std::int64_t>(question.without.size()) > room)
            throw ConfigError(
                fmt::format("without: expected up to {} labels, found {}", room, question.without.size()));
        result.dropped = joined(scope.dropped, question.without);
        if (scope.gathered) {
            Labels ranked;
            std::set_intersection(result.dropped.begin(), result.dropped.end(), scope.rows.begin(),
                                  scope.rows.end(), std::back_inserter(ranked));
            result.dropped = std::move(ranked);
        }
    }
    if (result.gathered) result.labels = static_cast<std::int64_t>(result.rows.size());
    require_answers(result, question.labels.empty() ? "without" : "labels");
    return result;
}

}  // namespace elmo
