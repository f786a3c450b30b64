#include "export/onnx_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>

#include "elmo/version.h"

namespace elmo {
namespace {

constexpr std::int64_t kAlign = 64;  // of tensors in the weights' file
constexpr std::int64_t kIrVersion = 8;

// Numbers of fields, from onnx.proto.
namespace model_field {
constexpr int kIrVersion = 1, kProducer = 2, kProducerVersion = 3, kGraph = 7, kOpset = 8;
}
namespace graph_field {
constexpr int kNode = 1, kName = 2, kInitializer = 5, kInput = 11, kOutput = 12;
}
namespace node_field {
constexpr int kInput = 1, kOutput = 2, kName = 3, kOp = 4, kAttribute = 5;
}
namespace attribute_field {
constexpr int kName = 1, kFloat = 2, kInt = 3, kInts = 8, kType = 20;
constexpr int kTypeFloat = 1, kTypeInt = 2, kTypeInts = 7;
}  // namespace attribute_field
namespace tensor_field {
constexpr int kDims = 1, kType = 2, kName = 8, kRaw = 9, kExternal = 13, kLocation = 14;
constexpr int kLocationExternal = 1;
}  // namespace tensor_field

ProtoMessage tensor(const std::string& name, OnnxType type, const OnnxModel::Shape& shape) {
    ProtoMessage message;
    for (const std::int64_t dim : shape) message.number(tensor_field::kDims, dim);
    message.number(tensor_field::kType, static_cast<std::int64_t>(type));
    return message.text(tensor_field::kName, name);
}

ProtoMessage value_info(const std::string& name, OnnxType type, const std::vector<std::string>& shape) {
    ProtoMessage dims;
    for (const std::string& dim : shape) {
        const bool number = std::isdigit(static_cast<unsigned char>(dim.front())) != 0;
        dims.message(1, number ? ProtoMessage().number(1, std::stoll(dim)) : ProtoMessage().text(2, dim));
    }
    const auto tensor_type =
        ProtoMessage().number(1, static_cast<std::int64_t>(type)).message(2, dims);  // Tensor
    return ProtoMessage().text(1, name).message(2, ProtoMessage().message(1, tensor_type));
}

ProtoMessage entry(std::string_view key, const std::string& value) {
    return ProtoMessage().text(1, key).text(2, value);
}

}  // namespace

void ProtoMessage::varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
}

ProtoMessage& ProtoMessage::number(int field, std::int64_t value) {
    varint(static_cast<std::uint64_t>(field) << 3);
    varint(static_cast<std::uint64_t>(value));
    return *this;
}

ProtoMessage& ProtoMessage::real(int field, float value) {
    varint(static_cast<std::uint64_t>(field) << 3 | 5);
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) bytes_ += static_cast<char>(bits >> shift);
    return *this;
}

ProtoMessage& ProtoMessage::text(int field, std::string_view value) {
    varint(static_cast<std::uint64_t>(field) << 3 | 2);
    varint(value.size());
    bytes_ += value;
    return *this;
}

OnnxAttribute::OnnxAttribute(std::string_view name, std::int64_t value) {
    message.text(attribute_field::kName, name)
        .number(attribute_field::kInt, value)
        .number(attribute_field::kType, attribute_field::kTypeInt);
}
OnnxAttribute::OnnxAttribute(std::string_view name, float value) {
    message.text(attribute_field::kName, name)
        .real(attribute_field::kFloat, value)
        .number(attribute_field::kType, attribute_field::kTypeFloat);
}
OnnxAttribute::OnnxAttribute(std::string_view name, std::initializer_list<std::int64_t> values) {
    message.text(attribute_field::kName, name);
    for (const std::int64_t value : values) message.number(attribute_field::kInts, value);
    message.number(attribute_field::kType, attribute_field::kTypeInts);
}

void OnnxModel::input(const std::string& name, OnnxType type, const std::vector<std::string>& shape) {
    graph_.message(graph_field::kInput, value_info(name, type, shape));
}
void OnnxModel::output(const std::string& name, OnnxType type, const std::vector<std::string>& shape) {
    graph_.message(graph_field::kOutput, value_info(name, type, shape));
}

void OnnxModel::named_node(const std::string& op, const std::vector<std::string>& inputs,
                           const std::vector<std::string>& outputs,
                           const std::vector<OnnxAttribute>& attributes) {
    ProtoMessage message;
    for (const std::string& input : inputs) message.text(node_field::kInput, input);
    for (const std::string& output : outputs) message.text(node_field::kOutput, output);
    message.text(node_field::kName, fmt::format("{}_{}", op, nodes_++)).text(node_field::kOp, op);
    for (const OnnxAttribute& attribute : attributes)
        message.message(node_field::kAttribute, attribute.message);
    graph_.message(graph_field::kNode, message);
}

std::string OnnxModel::node(const std::string& op, const std::vector<std::string>& inputs,
                            const std::vector<OnnxAttribute>& attributes) {
    std::string output = fmt::format("{}_{}_output", op, nodes_);
    named_node(op, inputs, {output}, attributes);
    return output;
}

void OnnxModel::weights(const std::string& name, const Shape& shape,
                        const std::function<void(const Write&)>& fill) {
    const std::string zeros(static_cast<std::size_t>((kAlign - offset_ % kAlign) % kAlign), '\0');
    weights_.write(zeros);
    offset_ += static_cast<std::int64_t>(zeros.size());
    const std::int64_t begin = offset_;
    fill([&](std::span<const float> values) {
        weights_.write(std::as_bytes(values));
        offset_ += static_cast<std::int64_t>(values.size_bytes());
    });
    ProtoMessage message = tensor(name, OnnxType::kFloat, shape);
    message.message(tensor_field::kExternal, entry("location", weights_.target().filename().string()))
        .message(tensor_field::kExternal, entry("offset", std::to_string(begin)))
        .message(tensor_field::kExternal, entry("length", std::to_string(offset_ - begin)))
        .number(tensor_field::kLocation, tensor_field::kLocationExternal);
    graph_.message(graph_field::kInitializer, message);
}

void OnnxModel::weights(const std::string& name, const Shape& shape, std::span<const float> values) {
    weights(name, shape, [&](const Write& write) { write(values); });
}

std::string OnnxModel::constant(const std::string& name, const Shape& shape,
                                std::span<const std::int64_t> values) {
    const std::string_view raw(reinterpret_cast<const char*>(values.data()), values.size_bytes());
    graph_.message(graph_field::kInitializer,
                   tensor(name, OnnxType::kInt64, shape).text(tensor_field::kRaw, raw));
    return name;
}

std::string OnnxModel::constant(const std::string& name, float value) {
    const std::string_view raw(reinterpret_cast<const char*>(&value), sizeof value);
    graph_.message(graph_field::kInitializer,
                   tensor(name, OnnxType::kFloat, {}).text(tensor_field::kRaw, raw));
    return name;
}

void OnnxModel::commit(const std::filesystem::path& file, std::int64_t opset, const std::string& name) {
    weights_.commit();
    graph_.text(graph_field::kName, name);
    write_file_atomically(file, ProtoMessage()
                                    .number(model_field::kIrVersion, opset > 18 ? 9 : kIrVersion)
                                    .text(model_field::kProducer, "elmo")
                                    .text(model_field::kProducerVersion, version())
                                    .message(model_field::kGraph, graph_)
                                    .message(model_field::kOpset, ProtoMessage().number(2, opset))
                                    .bytes());
}

}  // namespace elmo
