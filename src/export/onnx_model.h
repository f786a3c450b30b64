// An ONNX model being written: nodes in order, weights streamed into a file beside it. The few messages of
// the format (onnx.proto) are written in protobuf's wire format directly: a tag and a length in front of
// each field. That takes a page; the libraries for it would be two more dependencies of every build.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/atomic_file.h"

namespace elmo {

// The bytes of one message.
class ProtoMessage {
  public:
    ProtoMessage& number(int field, std::int64_t value);
    ProtoMessage& real(int field, float value);
    ProtoMessage& text(int field, std::string_view value);  // also bytes
    ProtoMessage& message(int field, const ProtoMessage& value) { return text(field, value.bytes_); }
    const std::string& bytes() const { return bytes_; }

  private:
    void varint(std::uint64_t value);
    std::string bytes_;
};

// Values of TensorProto.DataType.
enum class OnnxType { kFloat = 1, kInt64 = 7, kBf16 = 16, kE4M3 = 17 };

struct OnnxAttribute {
    ProtoMessage message;
    OnnxAttribute(std::string_view name, std::int64_t value);
    OnnxAttribute(std::string_view name, float value);
    OnnxAttribute(std::string_view name, std::initializer_list<std::int64_t> values);
};

class OnnxModel {
  public:
    using Shape = std::vector<std::int64_t>;

    // Weights go to `weights`, which lies beside the model.
    explicit OnnxModel(const std::filesystem::path& weights) : weights_(weights) {}

    // Dimensions are a number or a name.
    void input(const std::string& name, OnnxType type, const std::vector<std::string>& shape);
    void output(const std::string& name, OnnxType type, const std::vector<std::string>& shape);
    // An operator with one output, which is named after it.
    std::string node(const std::string& op, const std::vector<std::string>& inputs,
                     const std::vector<OnnxAttribute>& attributes = {});
    // The same with names for its outputs.
    void named_node(const std::string& op, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs,
                    const std::vector<OnnxAttribute>& attributes = {});

    // Weights in the file beside the model; write(values) is called with the next ones until all are there.
    void weights(const std::string& name, const Shape& shape, std::span<const float> values);
    using Write = std::function<void(std::span<const float> values)>;
    void weights(const std::string& name, const Shape& shape, const std::function<void(const Write&)>& fill);
    // Small constants, inside the model. An input of the same name makes it a default.
    std::string constant(const std::string& name, const Shape& shape, std::span<const std::int64_t> values);
    std::string constant(const std::string& name, float value);

    // Completes the weights' file, then writes the model.
    void commit(const std::filesystem::path& file, std::int64_t opset, const std::string& name);

  private:
    ProtoMessage graph_;
    AtomicFile weights_;
    std::int64_t offset_ = 0, nodes_ = 0;
};

}  // namespace elmo
