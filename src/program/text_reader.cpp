// Reads the text form of modules.
#include <algorithm>
#include <cctype>
#include <map>

#include <fmt/format.h>

#include "loop/text_reader.h"
#include "program/streams/branches.h"
#include "program/text.h"
#include "program/verify.h"
#include "schedule/text/text.h"

namespace toroid::program {
namespace {

class ModuleReader : private loop::LoopTextReader {
 public:
  explicit ModuleReader(std::string_view text) : LoopTextReader(text) {
    size_t end = 0;
    schedule::ScheduledProgram scheduled = schedule::parse_schedule_prefix(text, end);
    program_ = std::move(scheduled.program);
    graphs_ = std::move(scheduled.graphs);
    cursor_.move_to(end);
  }

  ParsedModule read() {
    const size_t place = cursor_.place();
    cursor_.expect_word("program");
    cursor_.expect("{");
    begin_graph(0);
    read_lines(place);
    read_functions();
    cursor_.expect("}");
    if (!cursor_.at_end()) cursor_.fail("expected the end of the text after the program");
    for (const auto& [index, function] : module_.subgraphs) at(places_.at(index), [&] { rules_.check_known(index, function); });
    at(place, [&] { rules_.check_all(); });
    return {std::move(program_), std::move(graphs_), std::move(module_)};
  }

 private:
  void begin_graph(size_t graph) { begin(graph == 0 ? program_.graph : program_.subgraphs[graph - 1], *graphs_[graph].schedule.loops); }

  // ---- numbers

  int64_t count(std::string_view wanted) {
    const size_t place = cursor_.place();
    const int64_t value = integer(cursor_.word(wanted));
    if (value < 0) cursor_.fail_at(place, fmt::format("expected {}", wanted));
    return value;
  }
  size_t index(std::string_view wanted) { return static_cast<size_t>(number(wanted)); }
  // A number that counts what stands before it in the text.
  void expect_number(std::string_view what, size_t wanted) {
    const size_t place = cursor_.place();
    const size_t given = index("a number");
    if (given != wanted) cursor_.fail_at(place, fmt::format("{} {} stands in place {}", what, given, wanted));
  }
  uint32_t subgraph() {
    cursor_.expect_word("subgraph");
    const size_t place = cursor_.place();
    const size_t given = index("the number of the subgraph");
    if (given >= program_.subgraphs.size()) cursor_.fail_at(place, fmt::format("there is no subgraph {}", given));
    return static_cast<uint32_t>(given);
  }
  size_t number_behind(std::string_view word) { return cursor_.expect_word(word), index("a number"); }

  // ---- before the functions

  void read_lines(size_t place) {
    module_.assertions = cursor_.accept_word("assertions");
    module_.is_long = cursor_.accept_word("long");
    if (cursor_.accept_word("symbols")) {
      do module_.symbols.push_back(expr(","));
      while (cursor_.accept(","));
    }
    if (cursor_.accept_word("constants")) {
      do {
        const size_t each = cursor_.place();
        module_.constants.push_back(ConstantId{static_cast<uint32_t>(index("the number of a constant"))});
        at(each, [&] { rules_.check_constant(); });
      } while (cursor_.accept(","));
    }
    if (cursor_.accept_word("prepared")) {
      module_.prepared_bytes = count("a number of bytes");
      cursor_.expect_word("bytes");
    }
    lines("temporary", [&](size_t i) {
      expect_number("temporary", i);
      cursor_.expect(":");
      schedule::Lifetime made{.buffer = buffer()};
      cursor_.expect(",");
      made.first_step = number_behind("steps");
      made.last_step = number_behind("to");
      module_.temporaries.push_back(made);
      return [&] { rules_.check_temporary(); };
    });
    lines("output", [&](size_t i) {
      expect_number("output", i);
      cursor_.expect(":");
      OutputInfo made{.sizes = expr_list(), .is_late = cursor_.accept_word("late"), .is_in_place = cursor_.accept_word("in")};
      if (made.is_in_place) cursor_.expect_word("place");
      module_.outputs.push_back(std::move(made));
      return [&] { rules_.check_output(); };
    });
    lines("kernel", [&](size_t i) {
      expect_number("kernel", i);
      cursor_.expect(":");
      KernelDefinition made{.graph = 0, .runs_once = cursor_.accept_word("once"), .step = number_behind("step")};
      if (cursor_.accept_word("part")) made.part = index("the kernel's number in its step");
      if (cursor_.accept_word("of")) made.graph = 1 + subgraph();
      module_.kernels.push_back(made);
      return [&] { rules_.check_kernel(); };
    });
    at(place, [&] { rules_.check_head(); });
  }

  // Lines that begin so: `read` is told how many there were before, and gives the check of what it read.
  template <class Read>
  void lines(std::string_view word, const Read& read) {
    for (size_t i = 0;; ++i) {
      const size_t place = cursor_.place();
      if (!cursor_.accept_word(word)) return;
      at(place, read(i));
    }
  }

  // ---- functions

  void read_functions() {
    cursor_.expect_word("function");
    const size_t place = cursor_.place();
    cursor_.expect_word("main");
    function(module_.main, 0, ModuleRules::Role::Main, place);
    while (cursor_.accept_word("function")) {
      const size_t place = cursor_.place();
      if (module_.subgraphs.empty() && !module_.prepare && cursor_.accept_word("prepare")) {
        function(module_.prepare.emplace(), 0, ModuleRules::Role::Prepare, place);
        continue;
      }
      const uint32_t number = subgraph();
      places_[number] = place;
      module_.subgraphs.emplace_back(number, Function{});
      function(module_.subgraphs.back().second, 1 + number, ModuleRules::Role::Subgraph, place);
    }
  }

  void function(Function& made, size_t graph, ModuleRules::Role role, size_t place) {
    made.graph = graph;
    begin_graph(graph);
    cursor_.expect("(");
    while (!cursor_.accept(")")) {
      made.known.push_back(expr(",)"));
      if (!cursor_.next_is(")")) cursor_.expect(",");
    }
    at(place, [&] { rules_.begin(made, role); });
    cursor_.expect("{");
    while (cursor_.accept_word("place")) placed(made);
    while (cursor_.accept_word("step")) step(made);
    if (cursor_.accept_word("at")) {
      cursor_.expect_word("end");
      cursor_.expect("{");
      while (!cursor_.accept("}")) {
        const size_t each = cursor_.place();
        made.at_end.push_back(instruction());
        at(each, [&] { rules_.check_at_end(made.at_end.back()); });
      }
    }
    cursor_.expect("}");
    at(place, [&] { rules_.end(); });
  }

  void placed(Function& function) {
    const size_t place = cursor_.place();
    PlacedBuffer made{.id = buffer(), .place = Allocated{}};
    cursor_.expect(":");
    const size_t device_place = cursor_.place();
    const std::string name = cursor_.word("a device");
    const std::optional<Device> device = parse_device(name);
    if (!device) cursor_.fail_at(device_place, fmt::format("there is no device '{}'", name));
    made.device = *device;
    if (cursor_.accept_word("input")) {
      made.place = InArgument{static_cast<uint32_t>(index("the number of an input"))};
    } else if (cursor_.accept_word("output")) {
      made.place = InResult{static_cast<uint32_t>(index("the number of an output"))};
    } else if (cursor_.accept_word("constant")) {
      made.place = InConstant{index("the number of a constant")};
    } else if (cursor_.accept_word("arena")) {
      made.place = InArena{index("the number of a temporary")};
    } else if (cursor_.accept_word("prepared")) {
      made.place = InPrepared{count("an offset in bytes")};
    } else if (cursor_.accept_word("random")) {
      cursor_.expect_word("state");
      made.place = InRandomState{};
    } else if (!cursor_.accept_word("allocated")) {
      cursor_.fail("expected input, output, constant, arena, prepared, random state or allocated");
    }
    at(place, [&] { rules_.check(made); });
    function.buffers.push_back(made);
  }

  void step(Function& function) {
    const size_t number = module_.steps.size();
    expect_number("step", number);
    StepInfo info{.name = step_name(), .origin = {}};
    const size_t place = cursor_.place();
    const std::vector<ProvenanceId> from = origins();
    if (from.size() > 1) cursor_.fail_at(place, "a step has one origin");
    if (!from.empty()) info.provenance = from[0];
    if (cursor_.next_is("\"")) info.origin = cursor_.string_literal();
    module_.steps.push_back(std::move(info));
    function.steps.push_back({number, {}});
    if (cursor_.accept_word("awaits")) function.steps.back().awaits = index("how many steps beside others");
    function.steps.back().is_beside = cursor_.accept_word("beside");
    function.steps.back().is_marked = cursor_.accept_word("marked");
    if (cursor_.accept_word("at")) {
      cursor_.expect_word("host");
      function.steps.back().on_host = true;
    }
    function.steps.back().waits = cursor_.accept_word("waits");
    if (cursor_.accept_word("on")) function.steps.back().branch = branch();
    rules_.begin_step(number);
    cursor_.expect("{");
    if (cursor_.accept_word("work")) work(number);
    while (!cursor_.accept("}")) {
      const size_t each = cursor_.place();
      function.steps.back().instructions.push_back(instruction());
      at(each, [&] { rules_.check(function.steps.back().instructions.back()); });
    }
  }

  // "on branch 2", of which "on" was read.
  uint32_t branch() {
    cursor_.expect_word("branch");
    const size_t place = cursor_.place(), number = index("a branch");
    if (number == 0 || number > kMostBranches) cursor_.fail_at(place, fmt::format("branches are 1 to {}", kMostBranches));
    return static_cast<uint32_t>(number);
  }

  void work(size_t number) {
    const size_t place = cursor_.place();
    if (module_.step_work.size() != number) cursor_.fail_at(place, "a step before this one has no work");
    schedule::StepWork made;
    cursor_.expect_word("bytes");
    made.bytes = expr(",");
    cursor_.expect(",");
    cursor_.expect_word("flops");
    made.flops = expr(",");
    cursor_.expect(",");
    cursor_.expect_word("numbers");
    made.numbers = dtype();
    module_.step_work.push_back(made);
  }

  // ---- instructions

  Instruction instruction() {
    if (cursor_.accept_word("time")) return TimeStep{number_behind("step")};
    if (cursor_.accept_word("allocate")) return allocate();
    if (cursor_.accept_word("release")) return Release{buffer()};
    if (cursor_.next_word() == "launch") return launch();
    if (cursor_.accept_word("together")) return together();
    if (cursor_.accept_word("quickest")) return quickest();
    if (cursor_.accept_word("call")) return library_call(true);
    if (cursor_.next_word() == "chain") return chain();
    if (cursor_.accept_word("read")) return read_number();
    if (cursor_.accept_word("cond")) return cond();
    if (cursor_.accept_word("while_loop")) return while_loop();
    if (cursor_.accept_word("scan")) return scan("scan");
    if (cursor_.accept_word("map_impl")) return scan("map_impl");
    if (cursor_.accept_word("associative_scan")) return associative_scan();
    cursor_.fail("expected an instruction");
  }

  Instruction allocate() {
    const BufferId id = buffer();
    const size_t place = cursor_.place();
    std::vector<sym::Expr> sizes = expr_list();
    if (cursor_.accept("=")) return AllocateOutput{id, static_cast<uint32_t>(number_behind("output")), std::move(sizes)};
    if (sizes.size() != 1) cursor_.fail_at(place, "expected a number of elements");
    return Allocate{id, sizes[0]};
  }

  Launch launch() {
    Launch made{};
    made.kernel = number_behind("launch");
    cursor_.expect(":");
    cursor_.expect_word("tasks");
    made.tasks = expr(",");
    cursor_.expect(",");
    cursor_.expect_word("work");
    made.work_per_task = expr(",");
    cursor_.expect(",");
    cursor_.expect_word("least");
    made.least_work = count("the least work");
    made.overlap = overlap();
    return made;
  }

  schedule::Overlap overlap() {
    schedule::Overlap made;
    if ((made.starts_early = cursor_.accept_word("starts"))) cursor_.expect_word("early");
    if ((made.loads_ahead = cursor_.accept_word("loading"))) cursor_.expect_word("ahead");
    if ((made.lets_next_start = cursor_.accept_word("lets"))) {
      cursor_.expect_word("next");
      cursor_.expect_word("start");
    }
    return made;
  }

  LaunchTogether together() {
    LaunchTogether made;
    cursor_.expect("{");
    while (!cursor_.accept("}")) made.kernels.push_back(launch());
    return made;
  }

  LaunchQuickest quickest() {
    cursor_.expect_word("as");
    cursor_.expect_word("choice");
    LaunchQuickest made{.forms = {}, .slot = module_.choices.size()};
    expect_number("choice", made.slot);
    Choice choice{.step = module_.steps.size() - 1, .forms = {}};
    cursor_.expect("{");
    while (!cursor_.accept("}")) {
      choice.forms.push_back(cursor_.word("a form"));
      cursor_.expect(":");
      made.forms.push_back(launch());
    }
    module_.choices.push_back(std::move(choice));
    return made;
  }

  // "matmul choice "packed"": matmul#packed.
  std::string kernel_name() {
    std::string name = cursor_.word("a library kernel", true);
    if (!cursor_.accept_word("choice")) return name;
    const size_t place = cursor_.place();
    const std::string choice = cursor_.string_literal();
    const bool is_plain = !choice.empty() && std::all_of(choice.begin(), choice.end(), [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
    });
    if (!is_plain) cursor_.fail_at(place, "the name of a choice is letters, digits and dashes");
    return name + "#" + choice;
  }

  int32_t site() {
    cursor_.expect_word("at");
    expect_number("call site", static_cast<size_t>(module_.num_call_sites));
    return module_.num_call_sites++;
  }

  bool has_fixed_sizes() {
    if (!cursor_.accept_word("of")) return true;
    cursor_.expect_word("free");
    cursor_.expect_word("sizes");
    return false;
  }

  std::vector<Operand> operands() {
    std::vector<Operand> result;
    do {
      loop::Operand window = operand();
      Operand made{.buffer = window.buffer,
                   .sizes = std::move(window.sizes),
                   .strides = std::move(window.strides),
                   .offset = window.offset,
                   .is_constant = cursor_.accept_word("constant")};
      if (cursor_.accept_word("in")) {
        cursor_.expect_word("blocks");
        made.is_in_memory = false;
      }
      result.push_back(std::move(made));
    } while (cursor_.accept(","));
    return result;
  }

  // A real number, or an integer expression.
  std::variant<double, sym::Expr> number_of_call() {
    const size_t place = cursor_.place();
    const Scalar value = scalar();
    if (const auto* real = std::get_if<double>(&value)) return *real;
    if (const auto* expr = std::get_if<sym::Expr>(&value)) return *expr;
    cursor_.fail_at(place, "expected a number");
  }

  LibraryCall library_call(bool has_site) {
    const size_t place = cursor_.place();
    LibraryCall made{.kernel = kernel_name(), .site = 0, .inputs = {}, .outputs = {}, .integers = {}, .numbers = {}};
    if (has_site) made.site = site();
    made.has_fixed_sizes = has_fixed_sizes();
    if (cursor_.accept_word("on")) made.inputs = operands();
    cursor_.expect("->");
    made.outputs = operands();
    // What is said of it in the code is the schedule's operation.
    made.label = at(place, [&] { return toroid::to_string(rules_.source_of(made).call.op); });
    if (cursor_.accept_word("integers")) made.integers = expr_list();
    if (cursor_.accept_word("numbers")) {
      cursor_.expect("[");
      do made.numbers.push_back(number_of_call());
      while (cursor_.accept(","));
      cursor_.expect("]");
    }
    if (cursor_.accept_word("epilogue")) made.epilogue = index("the number of a kernel");
    if (cursor_.accept("post-operations")) made.epilogue = post_ops();
    made.overlap = overlap();
    return made;
  }

  schedule::PostOps post_ops() {
    schedule::PostOps made;
    if (cursor_.accept_word("scale")) made.scale = place_in_buffer();
    if (cursor_.accept_word("bias")) made.bias = place_in_buffer();
    if (cursor_.accept_word("residual")) made.residual = place_in_buffer();
    cursor_.expect_word("low");
    made.low = real<float>(" ");
    cursor_.expect_word("high");
    made.high = real<float>(" ");
    cursor_.expect_word("to");
    made.out = place_in_buffer();
    return made;
  }

  schedule::PostOps::Place place_in_buffer() {
    schedule::PostOps::Place made{.buffer = buffer(), .offset = 0};
    const size_t place = cursor_.place();
    const std::vector<sym::Expr> numbers = expr_list();
    if (numbers.size() != 2) cursor_.fail_at(place, "expected an offset and a step");
    made.offset = numbers[0];
    made.row = numbers[1];
    return made;
  }

  ChainCall chain() {
    ChainCall made{.kernel = kernel_name(), .site = site(), .has_fixed_sizes = has_fixed_sizes(), .calls = {}};
    cursor_.expect("{");
    while (cursor_.accept_word("call")) made.calls.push_back(library_call(false));
    cursor_.expect("}");
    return made;
  }

  ReadNumber read_number() {
    ReadNumber made{.buffer = buffer(), .binding = module_.bindings.size(), .defines = {}};
    cursor_.expect_word("as");
    cursor_.expect_word("binding");
    expect_number("binding", made.binding);
    cursor_.expect_word("of");
    const sym::Expr value = bracketed();
    if (cursor_.accept_word("gives")) made.defines = expr("");
    module_.bindings.push_back({value, made.defines});
    return made;
  }

  // ---- control flow

  Pointer pointer() { return {buffer(), offset()}; }

  // What all of them end with.
  ControlFlow flow(std::string_view label, std::variant<Branch, WhileLoop, ScanOver, AssociativeScan> what) {
    ControlFlow made{.what = std::move(what), .inputs = {}, .outputs = {}, .bytes = {}, .label = std::string(label)};
    if (cursor_.accept_word("on")) {
      do made.inputs.push_back(pointer());
      while (cursor_.accept(","));
    }
    cursor_.expect("->");
    made.outputs = buffers();
    if (cursor_.accept_word("bytes")) {
      do {
        const DType type = dtype();
        made.bytes.push_back({bracketed(), type});
      } while (cursor_.accept(","));
    }
    return made;
  }

  ControlFlow cond() {
    Branch branch{};
    if (cursor_.accept_word("number")) {
      branch.number = bracketed();
    } else {
      cursor_.expect_word("tensor");
      branch.tensor = pointer();
    }
    cursor_.expect_word("then");
    branch.yes = subgraph();
    cursor_.expect_word("else");
    branch.no = subgraph();
    return flow("cond", branch);
  }

  ControlFlow while_loop() {
    WhileLoop loop{};
    loop.condition = subgraph();
    cursor_.expect_word("do");
    loop.body = subgraph();
    loop.carried = number_behind("carried");
    return flow("while_loop", loop);
  }

  ControlFlow scan(std::string_view label) {
    ScanOver scan{};
    scan.body = subgraph();
    cursor_.expect_word("over");
    scan.slices = bracketed();
    scan.carried = number_behind("carried");
    scan.sliced = number_behind("sliced");
    return flow(label, scan);
  }

  ControlFlow associative_scan() {
    AssociativeScan scan{};
    scan.body = subgraph();
    cursor_.expect_word("over");
    scan.slices = bracketed();
    scan.sliced = number_behind("sliced");
    return flow("associative_scan", scan);
  }

  std::vector<schedule::ScheduledGraph> graphs_;
  Module module_;
  ModuleRules rules_{program_, graphs_, module_};
  std::map<uint32_t, size_t> places_;  // of the subgraphs' functions
};

}  // namespace

ParsedModule parse_module(std::string_view text) { return ModuleReader(text).read(); }

}  // namespace toroid::program
