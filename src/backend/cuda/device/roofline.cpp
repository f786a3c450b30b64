#include "backend/cuda/device/roofline.h"

#include <algorithm>
#include <vector>

#include "backend/cuda/optimizer/optimizer.h"

namespace elmo::cuda {

Ceilings measure_ceilings(CudaContext& context, Products& products, DType storage, std::int64_t room_bytes) {
    // Operands of a size that fills the chip, where memory allows.
    const DType dtype = storage == DType::kF32 ? DType::kF32 : DType::kBf16;
    std::int64_t size = 8192;
    const std::int64_t room = std::min(room_bytes, context.free_bytes()) - Products::kWorkspaceBytes;
    while (size > 512 && 3 * size * size * 4 > room) size /= 2;
    const std::int64_t bytes = size * size * 4;
    const auto block = context.allocate(3 * bytes + Products::kWorkspaceBytes);
    char* base = static_cast<char*>(block->data());
    const auto matrix = [&](int i) { return View{base + i * bytes, dtype, size, size}; };
    const View workspace{base + 3 * bytes, DType::kU8, 1, Products::kWorkspaceBytes};
    for (int i = 0; i < 2; ++i) fill_normal({matrix(i), 1.0f, {1, 0, 1}, {1, 0, 2}, 0}, context.stream());
    Product product;
    product.a = matrix(0);
    product.b = matrix(1);
    product.c = matrix(2);
    const auto rate = [&](double amount, const auto& work) {
        constexpr int kRepeats = 9, kFirst = Backend::kMarks - kRepeats - 1;
        for (int i = 0; i < 3; ++i) work();
        for (int i = 0; i < kRepeats; ++i) {
            context.mark(kFirst + i);
            work();
        }
        context.mark(kFirst + kRepeats);
        std::vector<double> ms;
        for (int i = 0; i < kRepeats; ++i) ms.push_back(context.elapsed_ms(kFirst + i, kFirst + i + 1));
        std::sort(ms.begin(), ms.end());
        return amount / ms[kRepeats / 2] / 1e6;
    };
    Ceilings ceilings;
    const double edge = static_cast<double>(size);
    ceilings.gflops =
        rate(2 * edge * edge * edge, [&] { products.run(product, workspace, "measuring the product rate"); });
    ceilings.gbytes = rate(2.0 * static_cast<double>(bytes), [&] {
        check(cudaMemcpyAsync(base, base + bytes, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice,
                              context.stream()),
              "measuring the copy rate");
    });
    context.wait();
    return ceilings;
}

}  // namespace elmo::cuda
