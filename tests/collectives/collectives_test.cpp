// Operations among processes: four of them, forked for each test, with an MPI of the tests' own (shared_mpi.c). What each computes is what
// the evaluator computes, too, in the same processes, and what a loop over all their inputs gives.
#include "collectives/ranks_for_test.h"

namespace toroid {
namespace {

// Small integers, so that no dtype rounds: (rank + 1) (i + 1) modulo 7, less 2.
double element(int rank, int64_t i) { return static_cast<double>((rank + 1) * (i + 1) % 7 - 2); }
HostTensor input_of(int rank, DType dtype, std::vector<int64_t> sizes) {
  std::vector<double> values;
  for (int64_t i = 0; i < numel(sizes); ++i) values.push_back(element(rank, i));
  return is_floating(dtype) ? HostTensor::from_doubles(dtype, std::move(sizes), values)
                            : HostTensor::from_ints(dtype, std::move(sizes), std::vector<int64_t>(values.begin(), values.end()));
}

// What the compiled program and the evaluator give, which must be the same.
std::vector<HostTensor> results(const CompiledModel& model, const std::vector<HostTensor>& inputs) {
  const std::vector<HostTensor> expected = evaluate(*model.program, inputs);
  Executable executable = model.load(1);
  std::vector<HostTensor> outputs = executable.run(inputs);
  EXPECT_EQ(outputs.size(), expected.size());
  const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::vector<double> got = outputs[i].to_doubles(), want = expected[i].to_doubles();
    EXPECT_TRUE(std::equal(got.begin(), got.end(), want.begin(), want.end(), same)) << "output " << i;
  }
  return outputs;
}

class Operations : public testing::TestWithParam<std::string> {};
TEST_P(Operations, MoveAndReduceEachDtype) {
  const CompiledModel model = compiled(fmt::format(R"(
graph(x: {0}[4, 3]) {{
  a: {0}[4, 3] = _c10d_functional::all_reduce(x, "sum", "0")
  w: {0}[4, 3] = _c10d_functional::wait_tensor(a)
  g: {0}[16, 3] = _c10d_functional::all_gather_into_tensor(x, 4, "0")
  s: {0}[1, 3] = _c10d_functional::reduce_scatter_tensor(x, "max", 4, "0")
  e: {0}[4, 3] = _c10d_functional::all_to_all_single(x, [1, 1, 1, 1], [1, 1, 1, 1], "0")
  b: {0}[4, 3] = _c10d_functional::broadcast(x, 2, "0")
  return w, g, s, e, b
}})",
                                                   GetParam()));
  const DType dtype = model.program->graph.type(model.program->graph.inputs[0]).dtype;
  expect_in_all_ranks([&](int rank) {
    const std::vector<HostTensor> found = results(model, {input_of(rank, dtype, {4, 3})});
    for (int64_t i = 0; i < 12; ++i) {
      double sum = 0;
      for (int other = 0; other < kRanks; ++other) sum += element(other, i);
      EXPECT_EQ(found[0].double_at(i), sum) << i;
      for (int other = 0; other < kRanks; ++other) EXPECT_EQ(found[1].double_at(12 * other + i), element(other, i)) << i;
      EXPECT_EQ(found[3].double_at(i), element(static_cast<int>(i / 3), 3 * rank + i % 3)) << i;
      EXPECT_EQ(found[4].double_at(i), element(2, i)) << i;
    }
    for (int64_t i = 0; i < 3; ++i) {
      double most = element(0, 3 * rank + i);
      for (int other = 1; other < kRanks; ++other) most = std::max(most, element(other, 3 * rank + i));
      EXPECT_EQ(found[2].double_at(i), most) << i;
    }
  });
}
INSTANTIATE_TEST_SUITE_P(Dtypes, Operations, testing::Values("f32", "f64", "bf16", "f16", "i64", "i32", "i16", "i8"));

TEST(OperationsWithAGradient, AreTheSame) {
  const CompiledModel model = compiled(R"(
graph(x: f32[4, 3]) {
  e: f32[4, 3] = _c10d_functional_autograd::all_to_all_single(x, [1, 1, 1, 1], [1, 1, 1, 1], "0")
  g: f32[16, 3] = _c10d_functional_autograd::all_gather_into_tensor(x, 4, "0")
  w: f32[16, 3] = _c10d_functional::wait_tensor(g)
  s: f32[4, 3] = _c10d_functional_autograd::reduce_scatter_tensor(w, "avg", 4, "0")
  return e, s
})");
  expect_in_all_ranks([&](int rank) {
    const std::vector<HostTensor> found = results(model, {input_of(rank, DType::F32, {4, 3})});
    for (int64_t i = 0; i < 12; ++i) {
      EXPECT_EQ(found[0].double_at(i), element(static_cast<int>(i / 3), 3 * rank + i % 3)) << i;
      EXPECT_EQ(found[1].double_at(i), element(rank, i)) << i << ": all have gathered the same";
    }
  });
}

TEST(Reductions, AreThoseOfPyTorch) {
  const CompiledModel model = compiled(R"(
graph(x: i32[5], y: f32[5], t: bool[2]) {
  a: i32[5] = _c10d_functional::all_reduce(x, "avg", "0")
  b: i32[5] = _c10d_functional::all_reduce(x, "product", "0")
  c: i32[5] = _c10d_functional::all_reduce(x, "min", "0")
  d: i32[5] = _c10d_functional::all_reduce(x, "band", "0")
  e: i32[5] = _c10d_functional::all_reduce(x, "bor", "0")
  f: i32[5] = _c10d_functional::all_reduce(x, "bxor", "0")
  g: f32[5] = _c10d_functional::all_reduce(y, "avg", "0")
  h: f32[5] = _c10d_functional::all_reduce(y, "max", "0")
  i: bool[2] = _c10d_functional::all_reduce(t, "sum", "0")
  return a, b, c, d, e, f, g, h, i
})");
  expect_in_all_ranks([&](int rank) {
    const auto x = [](int r, int i) { return 3 * r + 5 * i + 1; };
    std::vector<int64_t> integers;
    std::vector<double> floats;
    for (int i = 0; i < 5; ++i) integers.push_back(x(rank, i)), floats.push_back(x(rank, i));
    if (rank == 1) floats[4] = std::nan("");
    const std::vector<HostTensor> found =
        results(model, {HostTensor::from_ints(DType::I32, {5}, integers), HostTensor::from_doubles(DType::F32, {5}, floats),
                        HostTensor::from_ints(DType::Bool, {2}, std::vector<int64_t>{0, rank == 2})});
    for (int i = 0; i < 5; ++i) {
      const int all[] = {x(0, i), x(1, i), x(2, i), x(3, i)};
      EXPECT_EQ(found[0].int_at(i), (all[0] + all[1] + all[2] + all[3]) / 4);
      EXPECT_EQ(found[1].int_at(i), all[0] * all[1] * all[2] * all[3]);
      EXPECT_EQ(found[2].int_at(i), all[0]);
      EXPECT_EQ(found[3].int_at(i), all[0] & all[1] & all[2] & all[3]);
      EXPECT_EQ(found[4].int_at(i), all[0] | all[1] | all[2] | all[3]);
      EXPECT_EQ(found[5].int_at(i), all[0] ^ all[1] ^ all[2] ^ all[3]);
      if (i == 4) continue;
      EXPECT_EQ(found[6].double_at(i), (all[0] + all[1] + all[2] + all[3]) / 4.0);
      EXPECT_EQ(found[7].double_at(i), all[3]);
    }
    EXPECT_TRUE(std::isnan(found[6].double_at(4)) && std::isnan(found[7].double_at(4)));
    EXPECT_EQ(found[8].int_at(0), 0);
    EXPECT_EQ(found[8].int_at(1), 1);
  });
}

TEST(Exchange, TakesPartsOfAnySize) {
  const CompiledModel first = compiled(R"(
graph(x: f32[10, 2]) {
  y: f32[5, 2] = _c10d_functional::all_to_all_single(x, [1, 4], [1, 9], "0")
  return y
})"),
                      second = compiled(R"(
graph(x: f32[10, 2]) {
  y: f32[15, 2] = _c10d_functional::all_to_all_single(x, [9, 6], [4, 6], "0")
  return y
})");
  expect_in_all_ranks(
      [&](int rank) {
        const HostTensor found = results(rank == 0 ? first : second, {input_of(rank, DType::F32, {10, 2})})[0];
        const int64_t of_first = rank == 0 ? 1 : 9;  // rows from process 0
        for (int64_t i = 0; i < found.numel(); ++i) {
          const bool is_of_first = i < 2 * of_first;
          const int64_t from = rank == 0 ? 0 : is_of_first ? 2 : 2 * 4;  // where its part begins there
          EXPECT_EQ(found.double_at(i), element(is_of_first ? 0 : 1, from + i - (is_of_first ? 0 : 2 * of_first))) << i;
        }
      },
      2);
}

// An operation whose result nobody uses is one in which others wait; constants do not make it one of the compiler's.
TEST(Collectives, RunInTheProgramsOrderWhetherTheyAreUsedOrNot) {
  const std::string text = R"(
graph(x: f32[2]) {{
  c: f32[2] = aten::full([2], 3.0)
  a: f32[2] = _c10d_functional::all_reduce(x, "sum", "0")
  b: f32[2] = _c10d_functional::all_reduce(c, "sum", "0")
  d: f32[2] = _c10d_functional::broadcast(x, 1, "0")
  return {}
}})";
  const CompiledModel uses_first = compiled(fmt::format(fmt::runtime(text), "a, b")),
                      uses_last = compiled(fmt::format(fmt::runtime(text), "d"));
  expect_in_all_ranks([&](int rank) {
    const std::vector<HostTensor> found = results(rank % 2 == 0 ? uses_first : uses_last, {input_of(rank, DType::F32, {2})});
    if (rank % 2 == 0) {
      EXPECT_EQ(found[0].double_at(1), element(0, 1) + element(1, 1) + element(2, 1) + element(3, 1));
      EXPECT_EQ(found[1].double_at(0), 12);
    } else {
      EXPECT_EQ(found[0].double_at(1), element(1, 1));
    }
  });
}

CompiledModel of_groups(std::string_view text, std::map<std::string, std::vector<int64_t>> groups) {
  Program program = parse_text(text);
  program.process_groups = std::move(groups);
  return TestSession::get().compile(std::move(program), {.optimization = 1, .keep_program = true});
}

TEST(Groups, AreSomeOfTheProcesses) {
  constexpr std::string_view kText = R"(
graph(x: f32[3]) {
  a: f32[3] = _c10d_functional::all_reduce(x, "sum", "row")
  g: f32[6] = _c10d_functional::all_gather_into_tensor(a, 2, "column")
  return g
})";
  // A mesh of 2 x 2.
  std::vector<CompiledModel> models;
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    const int64_t row = rank / 2 * 2, column = rank % 2;
    models.push_back(of_groups(kText, {{"row", {row, row + 1}}, {"column", {column, column + 2}}}));
  }
  expect_in_all_ranks([&](int rank) {
    const HostTensor found = results(models[static_cast<size_t>(rank)], {input_of(rank, DType::F32, {3})})[0];
    for (int i = 0; i < 6; ++i) {
      const int row = i / 3 * 2;
      EXPECT_EQ(found.double_at(i), element(row, i % 3) + element(row + 1, i % 3)) << i;
    }
  });
}

constexpr std::string_view kGathers = R"(
graph(x: f32[2]) {
  g: f32[8] = _c10d_functional::all_gather_into_tensor(x, 4, "0")
  return g
})";

TEST(Groups, AreAsLargeAsTheProgramSays) {
  const CompiledModel model = compiled(kGathers);
  const auto run = [&](int rank) {
    return message_of([&] { model.load(1).run(std::vector<HostTensor>{input_of(rank, DType::F32, {2})}); });
  };
  expect_in_all_ranks(
      [&](int rank) {
        EXPECT_EQ(run(rank), "the program is one of 4 processes, of which 2 run\nstart it by MPI's launcher: mpirun -n 4 …");
      },
      2);
  expect_in_all_ranks(
      [&](int rank) {
        EXPECT_EQ(run(rank), "the program is one of 4 processes, of which 1 runs\nstart it by MPI's launcher: mpirun -n 4 …");
      },
      1);
}

TEST(Groups, AreReadFromTexts) {
  using Groups = std::map<std::string, std::vector<int64_t>>;
  EXPECT_EQ(process_groups_of({.process_groups = {"row=0,1", "all=0-2,7"}}), (Groups{{"row", {0, 1}}, {"all", {0, 1, 2, 7}}}));
  for (const char* wrong : {"row", "=0", "row=", "row=0,", "row=1-0", "row=-1", "row=0;1", "row=0-9999999"}) {
    EXPECT_EQ(message_of([&] { process_groups_of({.process_groups = {wrong}}); }),
              fmt::format("'{}' is no group of processes\ngive a name and ranks: --group row=0,1 --group all=0-3", wrong));
  }
}

// In keys, too: another group is another program.
TEST(Groups, OfAnOptionAreThoseOfTheProgram) {
  constexpr std::string_view kText = "graph(x: f32[3]) {\n  a: f32[3] = _c10d_functional::all_reduce(x, \"sum\", \"pair\")\n  return a\n}";
  const auto of_option = [&](const char* group) {
    return TestSession::get().compile(parse_text(kText), {.process_groups = {group}, .optimization = 1});
  };
  const CompiledModel low = of_option("pair=0,1"), high = of_option("pair=2-3");
  expect_in_all_ranks([&](int rank) {
    const HostTensor found = (rank < 2 ? low : high).load(1).run(std::vector<HostTensor>{input_of(rank, DType::F32, {3})})[0];
    const int first = rank / 2 * 2;
    for (int i = 0; i < 3; ++i) EXPECT_EQ(found.double_at(i), element(first, i) + element(first + 1, i)) << i;
  });
}

TEST(Groups, AreThoseOfAProgramsVariantsToo) {
  Program program = parse_text(R"(
sym s0 in [1, 8]
graph(x: f32[s0]) {
  a: f32[s0] = _c10d_functional::all_reduce(x, "sum", "row")
  return a
})");
  const CompiledModel model =
      TestSession::get().compile(std::move(program), {.variants = {{{"s0", 3}}}, .process_groups = {"row=0,1"}, .optimization = 1});
  expect_in_all_ranks(
      [&](int rank) {
        for (const int64_t size : {3, 5}) {
          const HostTensor found = model.load(1).run(std::vector<HostTensor>{input_of(rank, DType::F32, {size})})[0];
          for (int64_t i = 0; i < size; ++i) EXPECT_EQ(found.double_at(i), element(0, i) + element(1, i)) << size;
        }
      },
      2);
}

TEST(Groups, HaveRanksThatTheModelDoesNotSay) {
  constexpr std::string_view kText = "graph(x: f32[3]) {\n  a: f32[3] = _c10d_functional::all_reduce(x, \"sum\", \"7\")\n  return a\n}";
  EXPECT_EQ(message_of([&] { compiled(kText); }),
            "the group '7' of processes, whose ranks the model does not say\nname them: --group 7=0,1");
  const CompiledModel model = of_groups(kText, {{"7", {0, 9}}});
  expect_in_all_ranks([&](int rank) {
    EXPECT_EQ(message_of([&] { model.load(1).run(std::vector<HostTensor>{input_of(rank, DType::F32, {3})}); }),
              "a group with process 9 of 4");
  });
}

TEST(Collectives, SayThatThereIsNoMpi) {
  const CompiledModel model = compiled(kGathers);
  expect_in_all_ranks(
      [&](int rank) {
        setenv("TOROID_MPI", "/nowhere/libmpi.so", 1);
        EXPECT_EQ(message_of([&] { model.load(1).run(std::vector<HostTensor>{input_of(rank, DType::F32, {2})}); }),
                  "no MPI: /nowhere/libmpi.so cannot be opened\nprograms of several processes need it: install Open MPI or MPICH (Debian: "
                  "openmpi-bin), or name libmpi in TOROID_MPI");
      },
      1);
}

TEST(Collectives, OfOneProcessNeedNoMpi) {
  const CompiledModel model =
      compiled("graph(x: f32[2]) {\n  g: f32[2] = _c10d_functional::all_gather_into_tensor(x, 1, \"0\")\n  return g\n}");
  expect_in_all_ranks(
      [&](int rank) {
        setenv("TOROID_MPI", "/nowhere/libmpi.so", 1);
        EXPECT_EQ(results(model, {input_of(rank, DType::F32, {2})})[0].double_at(1), element(0, 1));
      },
      1);
}

TEST(Collectives, RefuseSourcesOutsideOfTheGroup) {
  const CompiledModel model = compiled("graph(x: f32[3]) {\n  a: f32[3] = _c10d_functional::broadcast(x, 4, \"0\")\n  return a\n}");
  expect_in_all_ranks([&](int rank) {
    EXPECT_EQ(message_of([&] { model.load(1).run(std::vector<HostTensor>{input_of(rank, DType::F32, {3})}); }),
              "a broadcast from process 4 of 4");
  });
}

TEST(Collectives, RefuseReductionsThatTheyDoNotHave) {
  EXPECT_EQ(message_of([&] {
              compiled("graph(x: f32[3]) {\n  a: f32[3] = _c10d_functional::all_reduce(x, \"premul_sum\", \"0\")\n  return a\n}");
            }),
            "the reduction 'premul_sum' over processes");
  const CompiledModel model = compiled("graph(x: f32[3]) {\n  a: f32[3] = _c10d_functional::all_reduce(x, \"bxor\", \"0\")\n  return a\n}");
  expect_in_all_ranks([&](int rank) {
    EXPECT_EQ(message_of([&] { model.load(1).run(std::vector<HostTensor>{input_of(rank, DType::F32, {3})}); }),
              "such a reduction of f32 over processes");
  });
}

}  // namespace
}  // namespace toroid
