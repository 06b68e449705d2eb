#include "runtime/cuda/graph.h"

#include "base/error.h"

namespace toroid::cuda {
namespace {

// Other threads may do what they like meanwhile, and so may libraries that load their kernels late.
constexpr int kRelaxed = 2;

// A stream that is captured from.
class Capture {
 public:
  explicit Capture(const Stream& stream) : stream_(stream) {
    check(driver().capture_begin(stream_.handle(), kRelaxed), "capturing a graph");
    is_open_ = true;
  }
  ~Capture() {
    if (is_open_) driver().capture_end(stream_.handle(), &graph_);
    if (graph_ != nullptr) driver().graph_destroy(graph_);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  GraphHandle end() {
    is_open_ = false;
    check(driver().capture_end(stream_.handle(), &graph_), "capturing a graph");
    return graph_;
  }

 private:
  const Stream& stream_;
  GraphHandle graph_ = nullptr;
  bool is_open_ = false;
};

}  // namespace

Graph::~Graph() {
  if (made_ != nullptr) driver().graph_exec_destroy(made_);
}

void Graph::capture(const Stream& stream, const std::function<void()>& start) {
  Capture capture(stream);
  start();
  const GraphHandle captured = capture.end();
  size_t nodes = 0;
  check(driver().graph_nodes(captured, nullptr, &nodes), "capturing a graph");
  GraphUpdate update{};
  if (made_ == nullptr || driver().graph_update(made_, captured, &update) != 0) {
    GraphExecHandle made = nullptr;
    check(driver().graph_make(&made, captured, 0), "making a graph");
    if (made_ != nullptr) driver().graph_exec_destroy(made_);
    made_ = made;
  }
  nodes_ = nodes;
}

void Graph::launch(StreamHandle stream) const { check(driver().graph_launch(made_, stream), "starting a graph"); }

void require_not_captured(StreamHandle stream) {
  int status = 0;
  check(driver().stream_is_capturing(stream, &status), "asking for a stream's state");
  if (status != 0)
    throw Error(ErrorKind::InvalidInput, "the stream is being captured into a graph")
        .help("call programs outside of captures: they have graphs of their own");
}

}  // namespace toroid::cuda
