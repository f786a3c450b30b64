// Lists written in a field: what pandas, json.dumps and NumPy leave in a CSV cell.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace elmo {

struct FieldList {
    std::vector<std::string> items;
    int nulls = 0;         // None, null, nan: left out of the items
    bool certain = false;  // quotes, numbers or several items: what else it could be is one name in brackets,
                           // or, where all of {a:1,b:0} have a value behind a colon, a dictionary
};

// The items of a list written as JSON has it (["a", "b"]), Python (['a', "b"], also sets and tuples), NumPy
// (['a' 'b'], [1 2]), PostgreSQL ({a,"b c",x:y}) or without any quotes ([a, b]): strings with their escapes
// undone, others as they stand. Nothing where the text is no such list: dictionaries, lists in lists, a list
// cut by "...".
std::optional<FieldList> parse_label_list(std::string_view cell);

// Whether there is a colon as a dictionary has it before a value, not two that belong to a name (File::Spec).
bool has_lone_colon(std::string_view text);

}  // namespace elmo
