// Moving, casting and checking of views.
#include <cstring>

#include "backend/reference/reference_backend.h"
#include "backend/reference/scalar.h"

namespace elmo {

using namespace reference;

std::unique_ptr<Backend> make_reference_backend() {
    return std::make_unique<ReferenceBackend>();
}

void ReferenceBackend::upload(View to, const void* from) {
    if (!to.empty()) std::memcpy(to.data, from, static_cast<std::size_t>(to.bytes()));
}

void ReferenceBackend::download(void* to, View from) {
    if (!from.empty()) std::memcpy(to, from.data, static_cast<std::size_t>(from.bytes()));
}

void ReferenceBackend::fill_zero(View view) {
    if (!view.empty()) std::memset(view.data, 0, static_cast<std::size_t>(view.bytes()));
}

void ReferenceBackend::cast(View dst, View src) {
    for (std::int64_t r = 0; r < src.rows; ++r)
        for (std::int64_t c = 0; c < src.cols; ++c) store(dst, r, c, load(src, r, c));
}

void ReferenceBackend::round_fp16(View view) {
    Matrix rounded(view);
    round_to_fp16(rounded);
    rounded.store_to(view);
}

bool ReferenceBackend::has_non_finite(View view) {
    for (std::int64_t r = 0; r < view.rows; ++r)
        for (std::int64_t c = 0; c < view.cols; ++c)
            if (!std::isfinite(load(view, r, c))) return true;
    return false;
}

}  // namespace elmo
