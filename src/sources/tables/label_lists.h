// Lists written in a field: what pandas, json.dumps and NumPy leave in a CSV cell.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace elmo {

// Sets the items of a list written as JSON has it (["a", "b"]), Python (['a', "b"], also sets and tuples) or
// NumPy (['a' 'b'], [1 2]): strings with their escapes undone, numbers as they stand. False, with `out`
// emptied, where the text is no such list: words without quotes, lists in lists, a list cut by "...".
bool parse_label_list(std::string_view cell, std::vector<std::string>& out);

}  // namespace elmo
