// Any bytes as a PyTorch checkpoint: reading ends in tensors inside the file or in an elmo::Error, and calls
// nothing.
#include <cstdlib>

#include "elmo/error.h"
#include "formats/torch_file.h"
#include "memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const elmo::fuzz::MemoryFile content(data, size);
    try {
        const elmo::SafeTensors file = elmo::open_torch_file(elmo::MappedFile(content.path()));
        const auto all = file.mapping().bytes();
        for (const elmo::TensorInfo& tensor : file.tensors())
            if (!tensor.data.empty() && (tensor.data.data() < all.data() ||
                                         tensor.data.data() + tensor.data.size() > all.data() + all.size()))
                std::abort();
    } catch (const elmo::Error&) {
    }
    return 0;
}
