// A device backend behind host views, so that one test serves every backend. For each op all of its tensors,
// inputs and outputs, are copied to the device side by side, with guard bytes between them; the op runs; all
// are copied back and the guards are checked. Views that share their memory share it on the device too.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "backend/backend.h"

namespace elmo::testing_ops {

class UploadingBackend : public Backend {
  public:
    explicit UploadingBackend(std::unique_ptr<Backend> device) : device_(std::move(device)) {}

    std::string_view name() const override { return device_->name(); }
    std::string describe() const override { return device_->describe(); }

    // Memory of the device: for the arena that scratch is taken from.
    std::unique_ptr<MemoryBlock> allocate(std::int64_t bytes) override {
        auto block = device_->allocate(bytes);
        device_memory_[static_cast<const char*>(block->data())] = block->bytes();
        return block;
    }
    std::int64_t free_bytes() const override { return device_->free_bytes(); }
    std::int64_t taken_bytes() const override { return device_->taken_bytes(); }
    std::int64_t preferred_chunks(const Workload& workload) const override {
        return device_->preferred_chunks(workload);
    }
    std::int64_t attention_mask_bytes(const Workload& workload) const override {
        return device_->attention_mask_bytes(workload);
    }
    void reserve(Arena& arena, const Workload& workload) override { device_->reserve(arena, workload); }
    void reserve_head(Arena& arena, const Workload& workload) override {
        device_->reserve_head(arena, workload);
    }

    void wait() override { device_->wait(); }
    void begin_batch(std::span<const std::int32_t> tokens, Offsets offsets) override {
        device_->begin_batch(tokens, offsets);
    }
    void mark(int mark) override { device_->mark(mark); }
    double elapsed_ms(int from, int to) override { return device_->elapsed_ms(from, to); }
    Ceilings measure_ceilings(DType storage, std::int64_t room) override {
        return device_->measure_ceilings(storage, room);
    }

    void upload(View to, const void* from) override {
        with_copies({&to}, [&] { device_->upload(to, from); });
    }
    void download(void* to, View from) override {
        with_copies({&from}, [&] { device_->download(to, from); });
    }
    void fill_zero(View view) override {
        with_copies({&view}, [&] { device_->fill_zero(view); });
    }
    void cast(View dst, View src) override {
        with_copies({&dst, &src}, [&] { device_->cast(dst, src); });
    }
    void round_fp16(View view) override {
        with_copies({&view}, [&] { device_->round_fp16(view); });
    }
    bool has_non_finite(View view) override {
        bool found = false;
        with_copies({&view}, [&] { found = device_->has_non_finite(view); });
        return found;
    }

    void fill_normal(const FillNormal& op) override { run(&Backend::fill_normal, op); }
    void linear_forward(const LinearForward& op) override { run(&Backend::linear_forward, op); }
    void linear_backward(const LinearBackward& op) override { run(&Backend::linear_backward, op); }
    void gelu_backward(const GeluBackward& op) override { run(&Backend::gelu_backward, op); }
    void residual_norm_forward(const ResidualNormForward& op) override {
        run(&Backend::residual_norm_forward, op);
    }
    void residual_norm_backward(const ResidualNormBackward& op) override {
        run(&Backend::residual_norm_backward, op);
    }
    void dropout(const DropoutApply& op) override { run(&Backend::dropout, op); }
    void add(const AddInPlace& op) override { run(&Backend::add, op); }
    void attention_forward(const AttentionForward& op) override { run(&Backend::attention_forward, op); }
    void attention_backward(const AttentionBackward& op) override { run(&Backend::attention_backward, op); }
    void embed_forward(const EmbedForward& op) override { run(&Backend::embed_forward, op); }
    void embed_backward(const EmbedBackward& op) override { run(&Backend::embed_backward, op); }
    void pool_forward(const PoolForward& op) override { run(&Backend::pool_forward, op); }
    void pool_backward(const PoolBackward& op) override { run(&Backend::pool_backward, op); }
    void bag_forward(const BagForward& op) override { run(&Backend::bag_forward, op); }
    void bag_backward(const BagBackward& op) override { run(&Backend::bag_backward, op); }
    void adamw(std::span<const AdamWUpdate> given) override {
        std::vector<AdamWUpdate> ops(given.begin(), given.end());
        std::vector<View*> views;
        for (AdamWUpdate& op : ops) add_views(op, views);
        with_copies(views, [&] { device_->adamw(ops); });
    }
    HeadStepResult head_step(const HeadStep& op) override { return run(&Backend::head_step, op); }
    ReneeStepResult renee_step(const ReneeStep& op) override { return run(&Backend::renee_step, op); }
    std::vector<TopK> head_topk(const HeadTopK& op) override { return run(&Backend::head_topk, op); }

  private:
    // NaN in all formats but E3M4: what is read beyond an end shows in the result.
    static constexpr unsigned char kGuardByte = 0xff;
    static constexpr std::int64_t kGuard = 256;

    struct Piece {
        std::int64_t bytes = 0, offset = 0;
    };

    bool on_device(const void* address) const {
        const auto* p = static_cast<const char*>(address);
        auto next = device_memory_.upper_bound(p);
        return next != device_memory_.begin() && p < std::prev(next)->first + std::prev(next)->second;
    }

    template <class Op>
    static void add_views(Op& op, std::vector<View*>& views) {
        visit_views(op, [&](auto&... view) { views.insert(views.end(), {&view...}); });
    }
    // An op with all of its views on the device.
    template <class Result, class Op>
    Result run(Result (Backend::*method)(const Op&), Op op) {
        std::vector<View*> views;
        add_views(op, views);
        if constexpr (std::is_void_v<Result>) {
            with_copies(views, [&] { (device_.get()->*method)(op); });
        } else {
            Result result;
            with_copies(views, [&] { result = (device_.get()->*method)(op); });
            return result;
        }
    }

    // Points the views to copies on the device for as long as the body runs.
    template <class Body>
    void with_copies(const std::vector<View*>& views, const Body& body) {
        std::map<char*, Piece> pieces;
        for (const View* view : views)
            if (view->data != nullptr && !on_device(view->data)) {
                std::int64_t& bytes = pieces[static_cast<char*>(view->data)].bytes;
                bytes = std::max(bytes, view->bytes());
            }
        if (pieces.empty()) return body();
        std::int64_t total = kGuard;
        const char *begin = nullptr, *end = nullptr;
        std::int64_t offset = 0;
        for (auto& [data, piece] : pieces) {
            if (data < end) {  // inside the one before, which is copied
                ASSERT_LE(data + piece.bytes, end)
                    << "views that overlap in part cannot be copied one by one";
                piece = {0, offset + (data - begin)};
                continue;
            }
            begin = data;
            end = data + piece.bytes;
            offset = total;
            piece.offset = total;
            total += (piece.bytes + kGuard - 1) / kGuard * kGuard + kGuard;
        }
        if (block_ == nullptr || block_->bytes() < total) block_ = device_->allocate(total);
        auto* base = static_cast<char*>(block_->data());
        ASSERT_EQ(reinterpret_cast<std::uintptr_t>(base) % Arena::kAlignment, 0u);
        const View all{base, DType::kU8, 1, total};
        std::vector<unsigned char> image(static_cast<std::size_t>(total), kGuardByte);
        for (const auto& [data, piece] : pieces)
            std::memcpy(image.data() + piece.offset, data, static_cast<std::size_t>(piece.bytes));
        device_->upload(all, image.data());
        for (View* view : views)
            if (view->data != nullptr && !on_device(view->data))
                view->data = base + pieces.at(static_cast<char*>(view->data)).offset;
        body();
        device_->download(image.data(), all);
        for (const auto& [data, piece] : pieces) {
            unsigned char* tensor = image.data() + piece.offset;
            std::memcpy(data, tensor, static_cast<std::size_t>(piece.bytes));
            std::memset(tensor, kGuardByte, static_cast<std::size_t>(piece.bytes));
        }
        for (std::int64_t i = 0; i < total; ++i)
            ASSERT_EQ(image[static_cast<std::size_t>(i)], kGuardByte)
                << "byte " << i << " was written, the tensors are at" << places(pieces);
    }
    static std::string places(const std::map<char*, Piece>& pieces) {
        std::string text;
        for (const auto& [data, piece] : pieces)
            text += " " + std::to_string(piece.offset) + " to " + std::to_string(piece.offset + piece.bytes);
        return text;
    }

    std::unique_ptr<Backend> device_;
    std::unique_ptr<MemoryBlock> block_;
    std::map<const char*, std::int64_t> device_memory_;
};

}  // namespace elmo::testing_ops
