// What a GPU computes with the same bits as a CPU: first weights, the optimiser with its rounded moments,
// casts, and an announced batch. Stochastic rounding is met at every exponent: numbers that saturate, numbers
// below the smallest of a format, and those between.
#include "backend/op_harness.h"

namespace elmo::testing_ops {
namespace {

Workload workload_of(std::int64_t width) {
    Workload workload;
    workload.width = width;
    return workload;
}

TEST(Agreement, FillNormalAtEveryExponent) {
    for (const DType dtype : {DType::kF32, DType::kBf16, DType::kE4M3, DType::kE3M4})
        for (const std::int64_t width : {1, 7, 64, 129, 1030}) {
            Reserved gpu(make_tested_backend("cuda"), workload_of(width));
            Reserved cpu(make_cpu_backend(quiet(), "fp32"), workload_of(width));
            for (int exponent = -148; exponent <= 127; exponent += 11) {
                SCOPED_TRACE(std::string(name_of(dtype)) + ", width " + std::to_string(width) + ", sigma 2^" +
                             std::to_string(exponent));
                Tensor on_gpu("gpu", dtype, 70, width), on_cpu("cpu", dtype, 70, width);
                FillNormal op{on_gpu.view(), std::ldexp(1.0f, exponent), {5, 1, 2}, {5, 1, 3}, 1000000};
                gpu->fill_normal(op);
                op.w = on_cpu.view();
                cpu->fill_normal(op);
                expect_same_bits(on_gpu, on_cpu);
                if (testing::Test::HasFatalFailure()) return;
            }
        }
}

struct State {
    Tensor w, m, v, c;
    State(const std::string& name, DType dtype, std::int64_t rows, std::int64_t cols)
        : w(name + " w", dtype, rows, cols),
          m(name + " m", dtype, rows, cols),
          v(name + " v", dtype, rows, cols),
          c(name + " c", dtype, rows, cols) {}
    void copy(const State& o) { w.copy(o.w), m.copy(o.m), v.copy(o.v), c.copy(o.c); }
};

// Of the i-th tensor in update t.
void set_numbers(AdamWUpdate& op, std::size_t i, std::int64_t t) {
    op.lr = 0.003f;
    op.weight_decay = i % 2 == 0 ? 0.01f : 0.0f;
    op.grad_scale = 1.0f / 3;
    op.t = t;
    op.key = {3, static_cast<std::uint64_t>(t), 0x3000 + 2 * static_cast<std::uint32_t>(i)};
}

// Several tensors in one call, as an encoder's update is, for a few updates one after another. Gradients lie
// between numbers whose square is lost and numbers whose square is the largest.
TEST(Agreement, AdamW) {
    const std::pair<std::int64_t, std::int64_t> shapes[] = {{1, 1},    {1, 127},  {3, 129}, {65, 7},
                                                            {2, 1025}, {40, 384}, {1, 64},  {300, 8}};
    Rng rng(71);
    std::normal_distribution<double> normal;
    std::uniform_int_distribution<int> exponent(-60, 60);
    for (const DType dtype : {DType::kF32, DType::kBf16})
        for (const DType grad_dtype : {dtype, DType::kF32}) {  // F32 where gradients are accumulated
            SCOPED_TRACE(std::string(name_of(dtype)) + ", gradients " + std::string(name_of(grad_dtype)));
            Reserved gpu(make_tested_backend("cuda"), workload_of(1025));
            Reserved cpu(make_cpu_backend(quiet(), "fp32"), workload_of(1025));
            std::vector<std::unique_ptr<State>> on_gpu, on_cpu;
            std::vector<std::unique_ptr<Tensor>> grads;
            for (const auto& [rows, cols] : shapes) {
                const auto& g = on_gpu.emplace_back(std::make_unique<State>("gpu", dtype, rows, cols));
                const auto& c = on_cpu.emplace_back(std::make_unique<State>("cpu", dtype, rows, cols));
                g->w.fill([&](auto, auto) { return 0.1 * normal(rng); });
                g->m.fill([&](auto, auto) { return std::ldexp(normal(rng), exponent(rng)); });
                g->v.fill([&](auto, auto) { return std::ldexp(std::abs(normal(rng)), exponent(rng)); });
                g->c.fill([&](auto, auto) { return 1e-5 * normal(rng); });
                c->copy(*g);
                grads.push_back(std::make_unique<Tensor>("grad", grad_dtype, rows, cols));
                grads.back()->fill([&](auto, auto) { return std::ldexp(normal(rng), exponent(rng)); });
                grads.back()->freeze();
            }
            for (const std::int64_t t : {1, 2, 3, 1000}) {
                const auto updates = [&](std::vector<std::unique_ptr<State>>& states) {
                    std::vector<AdamWUpdate> ops;
                    for (std::size_t i = 0; i < states.size(); ++i) {
                        AdamWUpdate op;
                        op.w = states[i]->w.view();
                        op.grad = grads[i]->view();
                        op.m = states[i]->m.view();
                        op.v = states[i]->v.view();
                        if (dtype == DType::kBf16) op.c = states[i]->c.view();
                        set_numbers(op, i, t);
                        ops.push_back(op);
                    }
                    return ops;
                };
                gpu->adamw(updates(on_gpu));
                cpu->adamw(updates(on_cpu));
                for (std::size_t i = 0; i < on_gpu.size(); ++i) {
                    SCOPED_TRACE("tensor " + std::to_string(i) + ", update " + std::to_string(t));
                    expect_same_bits(on_gpu[i]->m, on_cpu[i]->m);
                    expect_same_bits(on_gpu[i]->v, on_cpu[i]->v);
                    expect_same_bits(on_gpu[i]->w, on_cpu[i]->w);
                    if (dtype == DType::kBf16) expect_same_bits(on_gpu[i]->c, on_cpu[i]->c);
                    if (testing::Test::HasFatalFailure()) return;
                }
            }
        }
}

// State in bytes: CPU and GPU have the same bits after any number of updates.
TEST(Agreement, AdamWInBytes) {
    const std::pair<std::int64_t, std::int64_t> shapes[] = {
        {1, 1}, {1, 127}, {3, 129}, {65, 7}, {2, 1025}, {40, 384}, {1, 64}, {300, 8}, {7, 136}, {33, 768}};
    struct Bytes {
        std::vector<std::unique_ptr<Tensor>> parts;  // w, m, v, c, exponents
        Bytes(std::int64_t rows, std::int64_t cols) {
            for (const char* name : {"w", "m", "v", "c", "exponents"}) {
                const bool first = parts.empty(), last = parts.size() == 4;
                parts.push_back(std::make_unique<Tensor>(name, first ? DType::kBf16 : DType::kU8, rows,
                                                         last ? 2 * moment_blocks(cols) : cols));
                std::memset(parts.back()->view().data, 0, parts.back()->bytes().size());
            }
        }
    };
    Rng rng(71);
    std::normal_distribution<double> normal;
    std::uniform_int_distribution<int> exponent(-55, 55);
    for (const DType grad_dtype : {DType::kBf16, DType::kF32}) {
        SCOPED_TRACE(std::string(name_of(grad_dtype)));
        Reserved gpu(make_tested_backend("cuda"), workload_of(1025));
        Reserved cpu(make_cpu_backend(quiet(), "fp32"), workload_of(1025));
        std::vector<Bytes> on_gpu, on_cpu;
        for (const auto& [rows, cols] : shapes) {
            for (auto* states : {&on_gpu, &on_cpu}) states->emplace_back(rows, cols);
            on_gpu.back().parts[0]->fill([&](auto, auto) { return 0.1 * normal(rng); });
            on_cpu.back().parts[0]->copy(*on_gpu.back().parts[0]);
        }
        for (const std::int64_t t : {1, 2, 3, 4, 1000}) {
            std::vector<std::unique_ptr<Tensor>> grads;
            for (const auto& [rows, cols] : shapes) {
                grads.push_back(std::make_unique<Tensor>("grad", grad_dtype, rows, cols));
                // Of one size in even rows, of all in others, and none in every fifth column.
                grads.back()->fill([&](auto r, auto c) {
                    const double g = normal(rng);
                    return c % 5 == 4 && t < 3 ? 0.0 : r % 2 == 0 ? 0.01 * g : std::ldexp(g, exponent(rng));
                });
                grads.back()->freeze();
            }
            const auto updates = [&](std::vector<Bytes>& states) {
                std::vector<AdamWUpdate> ops;
                for (std::size_t i = 0; i < states.size(); ++i) {
                    const auto& parts = states[i].parts;
                    AdamWUpdate op;
                    op.w = parts[0]->view();
                    op.m = parts[1]->view();
                    op.v = parts[2]->view();
                    op.c = parts[3]->view();
                    op.exponents = parts[4]->view();
                    op.grad = grads[i]->view();
                    op.first_row = static_cast<std::int64_t>(i);
                    set_numbers(op, i, t);
                    ops.push_back(op);
                }
                return ops;
            };
            gpu->adamw(updates(on_gpu));
            cpu->adamw(updates(on_cpu));
            for (std::size_t i = 0; i < on_gpu.size(); ++i)
                for (std::size_t part = 0; part < 5; ++part)
                    ASSERT_EQ(on_gpu[i].parts[part]->bytes(), on_cpu[i].parts[part]->bytes())
                        << on_cpu[i].parts[part]->name() << " of tensor " << i << ", update " << t;
        }
    }
}

// Texts that were announced, those that were not, and announced ones that end before the next come.
TEST(Agreement, AnnouncedBatches) {
    Rng rng(73);
    Workload workload = workload_of(40);
    workload.batch = 3;
    workload.tokens = 90;
    workload.longest = 64;
    workload.vocab = 11;
    workload.heads = 2;
    workload.widest = 120;
    Reserved gpu(make_tested_backend("cuda"), workload);
    const auto word = make_input("word", DType::kBf16, 11, 40, rng);
    const std::vector<std::int32_t> counts[] = {{5, 64, 1}, {5, 64, 1}, {0, 2}, {64, 25, 1}};
    for (const auto& c : counts) {
        const auto offsets = offsets_of(c);
        const auto tokens = random_tokens(offsets.back(), 11, rng);
        const auto other = random_tokens(offsets.back(), 11, rng);
        const auto batch = static_cast<std::int64_t>(c.size());
        const auto dout = make_input("dout", DType::kBf16, batch, 40, rng);
        const auto run = [&](const std::vector<std::int32_t>& ids) {
            Tensor out("out", DType::kBf16, batch, 40), dword("dword", DType::kBf16, 11, 40);
            gpu->bag_forward({ids, offsets, word->view(), out.view()});
            gpu->bag_backward({dout->view(), ids, offsets, dword.view(), false});
            auto all = out.bytes();
            for (const auto b : dword.bytes()) all.push_back(b);
            return all;
        };
        const auto plain = run(tokens), plain_other = run(other);
        gpu->begin_batch(tokens, offsets);
        EXPECT_EQ(run(tokens), plain);
        EXPECT_EQ(run(other), plain_other);  // at its own cost
        EXPECT_EQ(run(tokens), plain);
        gpu->begin_batch({}, {});
    }
}

TEST(Agreement, CastsOfEveryNumber) {
    Reserved gpu(make_tested_backend("cuda"), Workload{}), cpu(make_cpu_backend(quiet(), "fp32"), Workload{});
    Rng rng(79);
    Tensor bits("bits", DType::kF32, 64, 1000);
    for (std::int64_t i = 0; i < 64 * 1000; ++i) {
        auto pattern = static_cast<std::uint32_t>(rng());
        if ((pattern & 0x7f800000u) == 0x7f800000u) pattern &= 0xff800000u;  // infinities, no NaN payloads
        std::memcpy(bits.view().as<float>() + i, &pattern, 4);
    }
    bits.freeze();
    Tensor on_gpu("gpu", DType::kBf16, 64, 1000), on_cpu("cpu", DType::kBf16, 64, 1000);
    gpu->cast(on_gpu.view(), bits.view());
    cpu->cast(on_cpu.view(), bits.view());
    expect_same_bits(on_gpu, on_cpu);
}

}  // namespace
}  // namespace elmo::testing_ops
