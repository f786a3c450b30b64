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
    void reserve(Arena& arena, const Workload& workload) override { device_->reserve(arena, workload); }
    void reserve_head(Arena& arena, const Workload& workload) override {
        device_->reserve_head(arena, workload);
    }

    void upload(View to, const void* from) override {
        run({&to}, [&] { device_->upload(to, from); });
    }
    void download(void* to, View from) override {
        run({&from}, [&] { device_->download(to, from); });
    }
    void fill_zero(View view) override {
        run({&view}, [&] { device_->fill_zero(view); });
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

    void fill_normal(const FillNormal& given) override {
        FillNormal op = given;
        run({&op.w, &op.row_exponents}, [&] { device_->fill_normal(op); });
    }
    void linear_forward(const LinearForward& given) override {
        LinearForward op = given;
        run({&op.x_TK, &op.w_NK, &op.bias_1N, &op.y_TN, &op.pre_TN, &op.amax_13},
            [&] { device_->linear_forward(op); });
    }
    void linear_backward(const LinearBackward& given) override {
        LinearBackward op = given;
        run({&op.dy_TN, &op.x_TK, &op.w_NK, &op.dx_TK, &op.dw_NK, &op.dbias_1N, &op.amax_13},
            [&] { device_->linear_backward(op); });
    }
    void gelu_backward(const GeluBackward& given) override {
        GeluBackward op = given;
        run({&op.pre_TN, &op.dy_TN, &op.gelu_TN, &op.dbias_1N}, [&] { device_->gelu_backward(op); });
    }
    void residual_norm_forward(const ResidualNormForward& given) override {
        ResidualNormForward op = given;
        run({&op.a_TD, &op.residual_TD, &op.gamma_1D, &op.beta_1D, &op.sum_TD, &op.y_TD, &op.stats_T2},
            [&] { device_->residual_norm_forward(op); });
    }
    void residual_norm_backward(const ResidualNormBackward& given) override {
        ResidualNormBackward op = given;
        run({&op.dy_TD, &op.sum_TD, &op.stats_T2, &op.gamma_1D, &op.dsum_TD, &op.da_TD, &op.dgamma_1D,
             &op.dbeta_1D, &op.more_dy_TD, &op.dbias_1D},
            [&] { device_->residual_norm_backward(op); });
    }
    void dropout(const DropoutApply& given) override {
        DropoutApply op = given;
        run({&op.x_TD}, [&] { device_->dropout(op); });
    }
    void add(const AddInPlace& given) override {
        AddInPlace op = given;
        run({&op.y_TD, &op.x_TD}, [&] { device_->add(op); });
    }
    void attention_forward(const AttentionForward& given) override {
        AttentionForward op = given;
        run({&op.qkv_T3D, &op.context_TD, &op.lse_TH}, [&] { device_->attention_forward(op); });
    }
    void attention_backward(const AttentionBackward& given) override {
        AttentionBackward op = given;
        run({&op.dcontext_TD, &op.qkv_T3D, &op.context_TD, &op.lse_TH, &op.dqkv_T3D},
            [&] { device_->attention_backward(op); });
    }
    void embed_forward(const EmbedForward& given) override {
        EmbedForward op = given;
        run({&op.word_VD, &op.position_PD, &op.type_1D, &op.out_TD}, [&] { device_->embed_forward(op); });
    }
    void embed_backward(const EmbedBackward& given) override {
        EmbedBackward op = given;
        run({&op.dout_TD, &op.dword_VD, &op.dposition_PD, &op.dtype_1D},
            [&] { device_->embed_backward(op); });
    }
    void pool_forward(const PoolForward& given) override {
        PoolForward op = given;
        run({&op.x_TD, &op.out_BD}, [&] { device_->pool_forward(op); });
    }
    void pool_backward(const PoolBackward& given) override {
        PoolBackward op = given;
        run({&op.dout_BD, &op.dx_TD}, [&] { device_->pool_backward(op); });
    }
    void bag_forward(const BagForward& given) override {
        BagForward op = given;
        run({&op.word_VD, &op.out_BD}, [&] { device_->bag_forward(op); });
    }
    void bag_backward(const BagBackward& given) override {
        BagBackward op = given;
        run({&op.dout_BD, &op.dword_VD}, [&] { device_->bag_backward(op); });
    }
    void adamw(std::span<const AdamWUpdate> given) override {
        std::vector<AdamWUpdate> ops(given.begin(), given.end());
        std::vector<View*> views;
        for (AdamWUpdate& op : ops) views.insert(views.end(), {&op.w, &op.grad, &op.m, &op.v, &op.c});
        run(views, [&] { device_->adamw(ops); });
    }
    HeadStepResult head_step(const HeadStep& given) override {
        HeadStep op = given;
        HeadStepResult result;
        run({&op.x_BD, &op.w_LD, &op.dx_BD, &op.compensation_KD, &op.compensated_R2, &op.row_exponents_L1},
            [&] { result = device_->head_step(op); });
        return result;
    }
    ReneeStepResult renee_step(const ReneeStep& given) override {
        ReneeStep op = given;
        ReneeStepResult result;
        run({&op.x_BD, &op.w_LD, &op.momentum_LD, &op.w16_LD, &op.g16_LP, &op.dw16_LD, &op.dw32_LD,
             &op.dx_BD},
            [&] { result = device_->renee_step(op); });
        return result;
    }
    std::vector<TopK> head_topk(const HeadTopK& given) override {
        HeadTopK op = given;
        std::vector<TopK> result;
        run({&op.x_BD, &op.w_LD, &op.row_exponents_L1}, [&] { result = device_->head_topk(op); });
        return result;
    }
    void cast(View dst, View src) override {
        run({&dst, &src}, [&] { device_->cast(dst, src); });
    }
    bool has_non_finite(View view) override {
        bool found = false;
        run({&view}, [&] { found = device_->has_non_finite(view); });
        return found;
    }

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

    // Points the views to copies on the device for as long as the body runs.
    template <class Body>
    void run(const std::vector<View*>& views, const Body& body) {
        std::map<char*, Piece> pieces;
        for (const View* view : views)
            if (view->data != nullptr && !on_device(view->data)) {
                std::int64_t& bytes = pieces[static_cast<char*>(view->data)].bytes;
                bytes = std::max(bytes, view->bytes());
            }
        if (pieces.empty()) return body();
        std::int64_t total = kGuard;
        const char* end = nullptr;
        for (auto& [data, piece] : pieces) {
            ASSERT_LE(end, data) << "views that overlap in part cannot be copied one by one";
            end = data + piece.bytes;
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
