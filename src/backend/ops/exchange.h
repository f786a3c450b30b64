// Views of this rank that go to others, and views that come from them.
#pragma once

#include "backend/ops/common.h"

namespace elmo {

struct SentView {
    int to = 0;
    View view;
};
struct ReceivedView {
    int from = 0;
    View view;
};

}  // namespace elmo
