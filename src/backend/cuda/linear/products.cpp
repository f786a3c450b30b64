#include "backend/cuda/linear/products.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "backend/cuda/device/check.h"

namespace elmo::cuda {
namespace {

cudaDataType_t type_of(DType dtype) {
    switch (dtype) {
        case DType::kBf16:
            return CUDA_R_16BF;
        case DType::kF16:
            return CUDA_R_16F;
        case DType::kE4M3:
            return CUDA_R_8F_E4M3;
        case DType::kE5M2:
            return CUDA_R_8F_E5M2;
        default:
            return CUDA_R_32F;
    }
}

// A row-major matrix as cuBLAS sees it: columns and rows exchanged.
struct Layout {
    cublasLtMatrixLayoutOpaque_t opaque{};
    Layout(DType dtype, std::int64_t rows, std::int64_t cols) {
        check(cublasLtMatrixLayoutInit(&opaque, type_of(dtype), static_cast<std::uint64_t>(cols),
                                       static_cast<std::uint64_t>(rows), cols),
              "describing a matrix");
    }
};

// The shape of a product with m, n, k as stored.
struct Layouts {
    Layout a, b, c;
    Layouts(const Product& p, std::int64_t m, std::int64_t n, std::int64_t k)
        : a(p.a.dtype, p.transpose_a ? k : m, p.transpose_a ? m : k),
          b(p.b.dtype, p.transpose_b ? n : k, p.transpose_b ? k : n),
          c(p.c.dtype, m, n) {}
};

std::int64_t in_steps(std::int64_t size) {
    return (size + 255) / 256 * 256;
}

// Whether cuBLASLt has no kernel for a product. Any other failure is an error.
bool refused(cublasStatus_t status, const char* op) {
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return true;
    check(status, op);
    return false;
}

// What an algorithm was configured with; 0 where it does not say.
int config_of(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute) {
    std::int32_t value = 0;
    std::size_t written = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof(value), &written);
    return status == CUBLAS_STATUS_SUCCESS ? value : 0;
}

// The place of the algorithm to take among those that cuBLASLt offers, its favourite first. On Hopper two
// kinds of BF16 products are faster with another one (docs/performance.md): those over few columns, where one
// small tile of a multiprocessor is stored while another is multiplied, and sums over tokens that fill the
// card without being split. Depends only on the shapes, the card and the library.
std::size_t favourite(const Product& p, std::int64_t k,
                      std::span<const cublasLtMatmulHeuristicResult_t> offers) {
    const auto first = [&](const auto& fits) {
        const auto place = std::find_if(offers.begin(), offers.end(), [&](const auto& offer) {
            return offer.state == CUBLAS_STATUS_SUCCESS && fits(offer);
        });
        return static_cast<std::size_t>(place - offers.begin());
    };
    const auto is_split = [](const cublasLtMatmulHeuristicResult_t& offer) {
        return config_of(offer.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) > 1;
    };
    constexpr std::int64_t kFewColumns = 1024;
    constexpr float kManyTiles = 5, kNearlyAll = 0.9f;  // times what runs at a time
    std::size_t place = offers.size();
    if (p.tokens == Product::Tokens::kM && k <= kFewColumns) {
        const auto of_tile = [&](int tile) {
            return first([&](const auto& offer) {
                return config_of(offer.algo, CUBLASLT_ALGO_CONFIG_TILE_ID) == tile && !is_split(offer) &&
                       offer.wavesCount >= kManyTiles;
            });
        };
        place = of_tile(CUBLASLT_MATMUL_TILE_128x128);
        if (place == offers.size() && p.bias.empty()) place = of_tile(CUBLASLT_MATMUL_TILE_128x160);
    } else if (p.tokens == Product::Tokens::kK && is_split(offers.front())) {
        place = first([&](const auto& offer) {
            return !is_split(offer) && offer.wavesCount >= kNearlyAll && offer.wavesCount <= 1.0f;
        });
    }
    return place < offers.size() ? place : 0;
}

}  // namespace

// A product as cuBLASLt takes it.
struct Products::Call {
    const Product& p;
    std::int64_t m, n, k;
    const View& workspace;
    const char* op;
    cublasLtMatmulDescOpaque_t desc{};

    Call(const Product& product, const View& room, const char* name)
        : p(product),
          m(p.c.rows),
          n(p.c.cols),
          k(p.transpose_a ? p.a.rows : p.a.cols),
          workspace(room),
          op(name) {
        check(cublasLtMatmulDescInit(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), op);
        const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
            check(cublasLtMatmulDescSetAttribute(&desc, attribute, &value, sizeof(value)), op);
        };
        // c^T = op(b)^T op(a)^T: the operands change places.
        set(CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
        set(CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
        if (fp8()) {
            set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, p.scale_b);
            set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, p.scale_a);
            set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<std::int8_t>(p.fast));
        }
        if (!p.bias.empty()) {
            set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
            set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias.data);
            set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(p.bias.dtype));
        }
    }
    bool fp8() const { return p.scale_a != nullptr; }
    Key key(std::int64_t for_m, std::int64_t for_k) const {
        const int kind = (!p.bias.empty()) | p.transpose_a << 2 | p.transpose_b << 3 | p.accumulate << 4 |
                         (p.a.dtype == DType::kBf16) << 5 | (p.c.dtype == DType::kBf16) << 6 | fp8() << 7 |
                         (p.a.dtype == DType::kE5M2) << 8 | (p.a.dtype == DType::kF16) << 9 |
                         (p.c.dtype == DType::kF16) << 10 | p.fast << 11;
        return {for_m, n, for_k, kind};
    }
};

Products::Choice Products::choose(Call& call, std::int64_t m, std::int64_t k) const {
    Layouts planned(call.p, m, call.n, k);
    cublasLtMatmulPreferenceOpaque_t preference{};
    check(cublasLtMatmulPreferenceInit(&preference), call.op);
    const std::size_t room = static_cast<std::size_t>(call.workspace.bytes());
    check(cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room,
                                               sizeof(room)),
          call.op);
    // Sums that are split must be added up in FP32, not in the output's type.
    const std::uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    check(cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                               &schemes, sizeof(schemes)),
          call.op);
    const bool chooses = context_.properties().major == 9 && call.p.a.dtype == DType::kBf16;
    std::array<cublasLtMatmulHeuristicResult_t, 8> offers{};
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        context_.lt(), &call.desc, &planned.b.opaque, &planned.a.opaque, &planned.c.opaque, &planned.c.opaque,
        &preference, chooses ? static_cast<int>(offers.size()) : 1, offers.data(), &found);
    Choice choice;
    choice.status = status == CUBLAS_STATUS_SUCCESS && found == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : status;
    const std::size_t place =
        chooses && found > 0 ? favourite(call.p, k, {offers.data(), static_cast<std::size_t>(found)}) : 0;
    choice.algorithm = offers[place].algo;
    return choice;
}

cublasStatus_t Products::run_chosen(Call& call, std::int64_t for_m, std::int64_t for_k) {
    const Key key = call.key(for_m, for_k);
    auto place = choices_.find(key);
    if (place == choices_.end()) place = choices_.emplace(key, choose(call, for_m, for_k)).first;
    const Choice& choice = place->second;
    if (choice.status != CUBLAS_STATUS_SUCCESS) return choice.status;
    const Product& p = call.p;
    Layouts layouts(p, call.m, call.n, call.k);
    const float one = 1, beta = p.accumulate ? 1.0f : 0.0f;
    return cublasLtMatmul(context_.lt(), &call.desc, &one, p.b.data, &layouts.b.opaque, p.a.data,
                          &layouts.a.opaque, &beta, p.c.data, &layouts.c.opaque, p.c.data, &layouts.c.opaque,
                          &choice.algorithm, call.workspace.data,
                          static_cast<std::size_t>(call.workspace.bytes()), context_.stream());
}

void Products::reserve(Arena& arena) {
    workspace_ = arena.allocate("scratch/cublaslt_workspace", DType::kU8, 1, kWorkspaceBytes);
}

void Products::multiply(const Product& product, const char* op) {
    if (!run(product, op)) plain_product(product, context_.stream(), op);
}

bool Products::run(const Product& p, const View& workspace, const char* op) {
    // With rows that are not whole pieces of 16 bytes, and when it adds to 16 bits, cuBLASLt rounds to them
    // twice.
    const bool short_c = size_of(p.c.dtype) == 2;
    if (short_c && (p.accumulate || p.a.cols % 8 != 0 || p.b.cols % 8 != 0 || p.c.cols % 8 != 0))
        return false;
    Call call(p, workspace, op);
    const std::int64_t for_m = p.tokens == Product::Tokens::kM ? in_steps(call.m) : call.m;
    const std::int64_t for_k = p.tokens == Product::Tokens::kK ? in_steps(call.k) : call.k;
    cublasStatus_t status = run_chosen(call, for_m, for_k);
    if (!refused(status, op)) return true;
    // What was chosen for the next 256 tokens may not take this number of them.
    if (for_m != call.m || for_k != call.k) {
        status = run_chosen(call, call.m, call.k);
        if (!refused(status, op)) return true;
    }
    if (warned_.insert(call.key(for_m, for_k)).second)
        context_.run().warning(fmt::format(
            "GPU: {}: cuBLASLt has no kernel for [{}, {}] x [{}, {}] of {} and {} to {} ({}): a slower one "
            "takes its place",
            op, call.m, call.k, call.k, call.n, name_of(p.a.dtype), name_of(p.b.dtype), name_of(p.c.dtype),
            cublasLtGetStatusString(status)));
    return false;
}

}  // namespace elmo::cuda
