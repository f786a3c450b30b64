// Any bytes as a safetensors file: parsing ends in tensors inside the bytes or in an elmo::Error.
#include <cstdlib>
#include <vector>

#include "elmo/error.h"
#include "formats/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto bytes = std::as_bytes(std::span(data, size));
    try {
        const auto file = elmo::SafeTensors::parse(bytes, "fuzz");
        for (const auto& name : file.names()) {
            const elmo::TensorInfo& tensor = file.at(name);
            if (tensor.data.data() < bytes.data() || tensor.data.size() > size) std::abort();
            if (tensor.data.data() + tensor.data.size() > bytes.data() + size) std::abort();
            std::vector<float> values(static_cast<std::size_t>(tensor.num_elements()));
            try {
                elmo::read_tensor(tensor, std::span(values));
            } catch (const elmo::Error&) {
            }
        }
    } catch (const elmo::Error&) {
    }
    return 0;
}
