// examples/server, started as a process and loaded for a second.
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstring>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <nlohmann/json.hpp>

#include "base/file/file.h"
#include "frontend/safetensors.h"
#include "support/process/child_process.h"
#include "support/process/subprocess.h"

namespace toroid {
namespace {

using Json = nlohmann::json;
const std::filesystem::path kServedModels = std::filesystem::path(TOROID_SOURCE_DIR) / "examples/custom_operators";

std::vector<float> numbers(const std::filesystem::path& file, std::string_view name) {
  const SafeTensors tensors = read_safetensors(file);
  const SafeTensor* tensor = tensors.find(name);
  std::vector<float> values(tensor->bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
  return values;
}

Json request_of(std::span<const float> rows, int64_t count) {
  return {
      {"id", "7"},
      {"inputs", {{{"name", "x"}, {"datatype", "FP32"}, {"shape", {count, 16}}, {"data", std::vector<float>(rows.begin(), rows.end())}}}}};
}

class Server : public testing::Test {
 protected:
  static constexpr int64_t kRow = 16;

  void SetUp() override {
    const ProcessResult compiled =
        run_process({.argv = {TOROID_COMMAND, "compile", (kServedModels / "feed_forward.pt2").string(), "-o", "model.so"},
                     .folder = folder_.path(),
                     .environment = {{"TOROID_CACHE_DIR", (folder_.path() / "cache").string()}},
                     .timeout = std::chrono::minutes(2)});
    ASSERT_EQ(compiled.exit_code, 0) << compiled.errors;
    write_weights(1);
    Pipe errors = make_pipe("server");
    const Fd nothing = above_streams(Fd(open("/dev/null", O_RDWR | O_CLOEXEC)));
    child_.emplace(
        ChildOptions{.argv = {EXAMPLE_SERVER, "--port", "0", "--workers", "2", "--weights", "model=weights.safetensors", "model=model.so"},
                     .folder = folder_.path()},
        ChildStreams{nothing.get(), nothing.get(), errors.write.get()});
    errors.write = Fd();
    port_ = port_in(errors.read.get());
    errors_ = std::move(errors.read);
    ASSERT_GT(port_, 0);
  }

  // The model's last layer, all of it 0 or one number; its results are then the input, or that and the number.
  void write_weights(float bias) const {
    const std::vector<float> weight(16 * 32, 0.0f), biases(16, bias);
    const std::vector<SafeTensor> tensors = {{"down.weight", DType::F32, {16, 32}, std::as_bytes(std::span(weight))},
                                             {"down.bias", DType::F32, {16}, std::as_bytes(std::span(biases))}};
    write_safetensors(folder_.path() / "weights.safetensors", tensors);
  }

  // From the line that the server prints when it listens; 0 after ten seconds without one.
  static int port_in(int descriptor) {
    std::string line;
    for (int waited = 0; waited < 100; ++waited) {
      pollfd ready{descriptor, POLLIN, 0};
      if (poll(&ready, 1, 100) <= 0) continue;
      char bytes[256];
      const ssize_t count = read(descriptor, bytes, sizeof bytes);
      if (count <= 0) return 0;
      line.append(bytes, static_cast<size_t>(count));
      const size_t colon = line.rfind(':');
      if (line.ends_with("\n")) return colon == line.npos ? 0 : std::atoi(line.c_str() + colon + 1);
    }
    return 0;
  }

  Json ask(httplib::Client& client, const Json& request, int status = 200) const {
    const auto response = client.Post("/v2/models/model/infer", request.dump(), "application/json");
    EXPECT_TRUE(response);
    if (!response) return {};
    EXPECT_EQ(response->status, status) << response->body;
    return Json::parse(response->body);
  }

  double metric(httplib::Client& client, const std::string& name) const {
    const auto response = client.Get("/metrics");
    if (!response) return -1;
    const std::string mark = "\n" + name + "{model=\"model\"} ";
    const size_t at = response->body.find(mark);
    return at == std::string::npos ? -1 : std::strtod(response->body.c_str() + at + mark.size(), nullptr);
  }

  TempFolder folder_;
  std::optional<ChildProcess> child_;
  Fd errors_;
  int port_ = 0;
};

TEST_F(Server, AnswersManyAtOnceInBatchesAndTakesNewWeights) {
  httplib::Client client("127.0.0.1", port_);
  ASSERT_TRUE(client.Get("/v2/health/ready"));
  const Json description = Json::parse(client.Get("/v2/models/model")->body);
  EXPECT_EQ(description["inputs"][0]["name"], "x");
  EXPECT_EQ(description["batches"], true);

  const std::vector<float> x = numbers(kServedModels / "feed_forward.in2.safetensors", "in0");
  std::atomic<int> answers = 0, wrong = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  std::vector<std::thread> users;
  for (int user = 0; user < 8; ++user) {
    users.emplace_back([&, user] {
      httplib::Client own("127.0.0.1", port_);
      own.set_keep_alive(true);
      const auto rows = static_cast<size_t>(1 + user % 2), first = static_cast<size_t>(user % 5);
      const std::span<const float> sent(x.data() + first * kRow, rows * kRow);
      while (std::chrono::steady_clock::now() < end) {
        const Json answer = ask(own, request_of(sent, static_cast<int64_t>(rows)));
        const auto data = answer.value("/outputs/0/data"_json_pointer, std::vector<float>());
        bool is_right = answer["id"] == "7" && data.size() == sent.size();
        for (size_t i = 0; is_right && i < data.size(); ++i) is_right = std::fabs(data[i] - (sent[i] + 1)) < 1e-5f;
        ++answers;
        if (!is_right) ++wrong;
      }
    });
  }
  for (std::thread& user : users) user.join();
  EXPECT_GT(answers, 20);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(metric(client, "toroid_requests_total"), answers);
  EXPECT_LT(metric(client, "toroid_batches_total"), answers) << "requests that came together were computed together";
  EXPECT_EQ(metric(client, "toroid_errors_total"), 0);

  write_weights(5);
  kill(child_->pid(), SIGHUP);
  for (int waited = 0; waited < 100 && metric(client, "toroid_reloads_total") < 2; ++waited)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const Json answer = ask(client, request_of({x.data(), 16}, 1));
  EXPECT_NEAR(answer["outputs"][0]["data"][0].get<float>(), x[0] + 5, 1e-5);
  // Weights that cannot be read change nothing.
  write_file_atomically(folder_.path() / "weights.safetensors", std::string_view("nothing"));
  kill(child_->pid(), SIGHUP);
  EXPECT_NEAR(ask(client, request_of({x.data(), 16}, 1))["outputs"][0]["data"][0].get<float>(), x[0] + 5, 1e-5);
}

// An answer's head and body are two packets. Where the second one waits until the client has said that it has the first, an answer takes
// 40 ms: so the server's end of a connection has TCP_NODELAY.
TEST_F(Server, AnswersAtOnce) {
  httplib::Client client("127.0.0.1", port_);
  client.set_keep_alive(true);
  ask(client, request_of(std::vector<float>(16, 1.0f), 1));
  const Fd server(static_cast<int>(syscall(SYS_pidfd_open, child_->pid(), 0)));
  if (server.get() < 0) GTEST_SKIP() << "pidfd_open is refused here: " << std::strerror(errno);
  int connections = 0;
  for (const auto& entry : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", child_->pid()))) {
    const Fd own(static_cast<int>(syscall(SYS_pidfd_getfd, server.get(), std::stoi(entry.path().filename().string()), 0)));
    if (own.get() < 0 && (errno == EPERM || errno == ENOSYS)) GTEST_SKIP() << "pidfd_getfd is refused here: " << std::strerror(errno);
    sockaddr_in peer{};
    socklen_t length = sizeof peer;
    const bool is_connection = own.get() >= 0 && getpeername(own.get(), reinterpret_cast<sockaddr*>(&peer), &length) == 0;
    if (!is_connection || peer.sin_family != AF_INET) continue;
    int is_set = 0;
    length = sizeof is_set;
    ASSERT_EQ(getsockopt(own.get(), IPPROTO_TCP, TCP_NODELAY, &is_set, &length), 0) << std::strerror(errno);
    EXPECT_NE(is_set, 0);
    ++connections;
  }
  EXPECT_EQ(connections, 1);
}

TEST_F(Server, RefusesWhatDoesNotFit) {
  httplib::Client client("127.0.0.1", port_);
  const std::vector<float> x(32, 1.0f);
  EXPECT_EQ(client.Get("/v2/models/other")->status, 404);
  EXPECT_EQ(client.Post("/v2/models/model/infer", "{", "application/json")->status, 400);
  EXPECT_EQ(ask(client, {{"inputs", Json::array()}}, 400)["error"], "input 'x' (f32[s77, 16]) is missing");
  Json request = request_of(x, 2);
  request["inputs"][0]["shape"] = {2, 17};
  EXPECT_EQ(ask(client, request, 400)["error"], "input 'x' has not as many numbers as its shape says");
  request["inputs"][0]["shape"] = {4, 8};
  ask(client, request, 400);
  request["inputs"][0]["shape"] = {0, 16};
  request["inputs"][0]["data"] = Json::array();
  EXPECT_EQ(ask(client, request)["outputs"][0]["shape"], Json::parse("[0, 16]"));
}

TEST_F(Server, EndsWhenItIsTold) {
  kill(child_->pid(), SIGTERM);
  rusage usage{};
  const int status = child_->reap(usage);
  EXPECT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace toroid
