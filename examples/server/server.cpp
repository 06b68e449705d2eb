// Serves compiled models over HTTP: see README.md beside this file.
//
//   server [--port N] [--workers N] [--window-us N] [--weights NAME=FILE.safetensors] NAME=MODEL.so …
//
// Requests and answers are JSON of the Open Inference Protocol (KServe's V2). SIGHUP reads the weights again, SIGTERM ends the server when the
// requests at hand are answered.
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>

#include <httplib.h>
#include <nlohmann/json.hpp>

#include "served_model.h"

namespace {

using Json = nlohmann::json;

struct Datatype {
  const char* name;  // the protocol's
  DLDataType dtype;
};
const Datatype kDatatypes[] = {{"FP32", {kDLFloat, 32, 1}}, {"FP64", {kDLFloat, 64, 1}}, {"INT64", {kDLInt, 64, 1}},
                               {"INT32", {kDLInt, 32, 1}},  {"UINT8", {kDLUInt, 8, 1}},  {"INT8", {kDLInt, 8, 1}},
                               {"BOOL", {kDLBool, 8, 1}}};

// What is wrong with a request.
struct BadRequest {
  std::string what;
};

// The function, called with an element of this type.
template <class F>
void with_type(DLDataType dtype, F f) {
  const auto is = [&](int code, int bits) { return dtype.code == code && dtype.bits == bits; };
  if (is(kDLFloat, 32)) return f(float{});
  if (is(kDLFloat, 64)) return f(double{});
  if (is(kDLInt, 64)) return f(int64_t{});
  if (is(kDLInt, 32)) return f(int32_t{});
  if (is(kDLInt, 8)) return f(int8_t{});
  if (is(kDLUInt, 8)) return f(uint8_t{});
  if (is(kDLBool, 8)) return f(bool{});
  throw BadRequest{"tensors of this dtype cannot be written as JSON"};
}

const Datatype& datatype_called(const std::string& name) {
  for (const Datatype& each : kDatatypes) {
    if (name == each.name) return each;
  }
  throw BadRequest{"datatype '" + name + "' is not served"};
}
std::string name_of(DLDataType dtype) {
  for (const Datatype& each : kDatatypes) {
    if (each.dtype.code == dtype.code && each.dtype.bits == dtype.bits) return each.name;
  }
  return "UNKNOWN";
}

void append_numbers(const Json& data, DLDataType dtype, std::vector<char>& bytes, int depth = 0) {
  if (depth > 16) throw BadRequest{"the data is nested too deeply"};
  if (data.is_array()) {
    for (const Json& each : data) append_numbers(each, dtype, bytes, depth + 1);
    return;
  }
  with_type(dtype, [&](auto element) {
    const auto value = data.get<decltype(element)>();
    const size_t at = bytes.size();
    bytes.resize(at + sizeof value);
    std::memcpy(bytes.data() + at, &value, sizeof value);
  });
}

// Those of the model, in its order.
std::vector<Array> read_inputs(const Json& request, const ServedModel& model) {
  std::vector<Array> inputs;
  for (const toroid::runtime::TensorInfo& info : model.model().inputs()) {
    const Json* found = nullptr;
    for (const Json& each : request.at("inputs")) {
      if (each.at("name") == info.name) found = &each;
    }
    if (found == nullptr) throw BadRequest{"input '" + info.name + "' (" + info.type + ") is missing"};
    Array array;
    array.dtype = datatype_called(found->at("datatype").get<std::string>()).dtype;
    array.shape = found->at("shape").get<std::vector<int64_t>>();
    append_numbers(found->at("data"), array.dtype, array.bytes);
    int64_t elements = 1;
    for (const int64_t size : array.shape) {
      if (size < 0 || __builtin_mul_overflow(elements, size, &elements)) throw BadRequest{"input '" + info.name + "' has a bad shape"};
    }
    if (array.bytes.size() % (array.dtype.bits / 8u) != 0 || array.bytes.size() / (array.dtype.bits / 8u) != static_cast<size_t>(elements))
      throw BadRequest{"input '" + info.name + "' has not as many numbers as its shape says"};
    inputs.push_back(std::move(array));
  }
  return inputs;
}

Json to_json(const Array& array, const std::string& name) {
  Json data = Json::array();
  with_type(array.dtype, [&](auto element) {
    for (size_t at = 0; at + sizeof element <= array.bytes.size(); at += sizeof element) {
      std::memcpy(&element, array.bytes.data() + at, sizeof element);
      data.push_back(element);
    }
  });
  return {{"name", name}, {"datatype", name_of(array.dtype)}, {"shape", array.shape}, {"data", std::move(data)}};
}

void fail(httplib::Response& response, int status, const std::string& message) {
  response.status = status;
  response.set_content(Json{{"error", message}}.dump(), "application/json");
}

void infer(ServedModel& model, const httplib::Request& request, httplib::Response& response) try {
  const Json asked = Json::parse(request.body);
  const ServedModel::Answer answer = model.submit(read_inputs(asked, model)).get();
  if (!answer.error.empty()) return fail(response, answer.is_callers_fault ? 400 : 503, answer.error);
  Json outputs = Json::array();
  const std::vector<toroid::runtime::TensorInfo> infos = model.model().outputs();
  for (size_t i = 0; i < answer.outputs.size(); ++i) outputs.push_back(to_json(answer.outputs[i], infos[i].name));
  Json reply = {{"model_name", model.name()}, {"outputs", std::move(outputs)}};
  if (asked.contains("id")) reply["id"] = asked["id"];
  response.set_content(reply.dump(), "application/json");
} catch (const BadRequest& bad) {
  fail(response, 400, bad.what);
} catch (const Json::exception& bad) {
  fail(response, 400, bad.what());
}

Json description(const ServedModel& model) {
  const auto list = [](const std::vector<toroid::runtime::TensorInfo>& tensors) {
    Json all = Json::array();
    for (const auto& each : tensors) all.push_back({{"name", each.name}, {"datatype", name_of(each.dtype)}, {"type", each.type}});
    return all;
  };
  return {{"name", model.name()},
          {"platform", "toroid"},
          {"inputs", list(model.model().inputs())},
          {"outputs", list(model.model().outputs())},
          {"batches", model.takes_batches()}};
}

using Models = std::map<std::string, std::unique_ptr<ServedModel>>;

// Prometheus' text format.
std::string metrics_text(const Models& models) {
  std::string text;
  const auto metric = [&](const char* name, const char* type, const char* help, auto value) {
    text += std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
    for (const auto& [key, model] : models) text += std::string(name) + "{model=\"" + key + "\"} " + std::to_string(value(*model)) + "\n";
  };
  metric("toroid_requests_total", "counter", "Requests that were answered.", [](ServedModel& m) { return m.metrics().requests.load(); });
  metric("toroid_errors_total", "counter", "Of them those that failed.", [](ServedModel& m) { return m.metrics().errors.load(); });
  metric("toroid_batches_total", "counter", "Calls of the model.", [](ServedModel& m) { return m.metrics().batches.load(); });
  metric("toroid_rows_total", "counter", "Rows that these computed.", [](ServedModel& m) { return m.metrics().rows.load(); });
  metric("toroid_reloads_total", "counter", "How often weights were read.", [](ServedModel& m) { return m.metrics().reloads.load(); });
  metric("toroid_waiting", "gauge", "Requests that wait.", [](ServedModel& m) { return m.waiting(); });
  text += "# HELP toroid_latency_seconds From a request to its answer.\n# TYPE toroid_latency_seconds histogram\n";
  for (const auto& [key, model] : models) {
    Metrics& m = model->metrics();
    const std::string label = "{model=\"" + key + "\"";
    for (size_t i = 0; i < std::size(Metrics::kBuckets); ++i) {
      char bound[32];
      std::snprintf(bound, sizeof bound, "%g", Metrics::kBuckets[i]);
      text += "toroid_latency_seconds_bucket" + label + ",le=\"" + bound + "\"} " + std::to_string(m.within[i]) + "\n";
    }
    text += "toroid_latency_seconds_bucket" + label + ",le=\"+Inf\"} " + std::to_string(m.requests) + "\n";
    text += "toroid_latency_seconds_sum" + label + "} " + std::to_string(static_cast<double>(m.microseconds) * 1e-6) + "\n";
    text += "toroid_latency_seconds_count" + label + "} " + std::to_string(m.requests) + "\n";
  }
  return text;
}

int usage() {
  std::fprintf(stderr, "usage: server [--port N] [--workers N] [--window-us N] [--weights NAME=FILE.safetensors] NAME=MODEL.so ...\n");
  return 2;
}

bool read_number(const char* text, int& number) {
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), number);
  return error == std::errc() && *end == '\0' && number >= 0;
}

}  // namespace

int main(int argc, char** argv) try {
  int port = 8080, workers = 1, window_us = 2000;
  std::map<std::string, std::string> paths, weights;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    int* const number = flag == "--port" ? &port : flag == "--workers" ? &workers : flag == "--window-us" ? &window_us : nullptr;
    if (number != nullptr) {
      if (++i == argc || !read_number(argv[i], *number)) return usage();
      continue;
    }
    const bool is_weights = flag == "--weights";
    if (is_weights && ++i == argc) return usage();
    const std::string pair = argv[i];
    const size_t equals = pair.find('=');
    if (equals == pair.npos || equals == 0 || pair.find_first_of("\"\\\n/") < equals) return usage();
    (is_weights ? weights : paths)[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  if (paths.empty() || workers == 0) return usage();

  // Before there are threads: all leave these signals to the one that waits for them.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int each : {SIGHUP, SIGTERM, SIGINT}) sigaddset(&signals, each);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  Models models;
  for (const auto& [name, path] : paths) {
    ServedModel::Options options;
    options.workers = workers;
    options.window = std::chrono::microseconds(window_us);
    if (const auto found = weights.find(name); found != weights.end()) options.weights = found->second;
    models.emplace(name, std::make_unique<ServedModel>(name, path, options));
  }

  httplib::Server server;
  server.new_task_queue = [] { return new httplib::ThreadPool(64); };  // each waits for its answer
  server.set_keep_alive_timeout(1);                                    // so long may the end take
  server.set_tcp_nodelay(true);  // an answer's head and body are two packets, the second of which would wait for the client
  server.set_payload_max_length(size_t{64} << 20);
  server.Get("/v2/health/ready",
             [](const httplib::Request&, httplib::Response& response) { response.set_content("{}", "application/json"); });
  server.Get("/metrics", [&](const httplib::Request&, httplib::Response& response) {
    response.set_content(metrics_text(models), "text/plain; version=0.0.4");
  });
  const auto with_model = [&](auto action) {
    return [&models, action](const httplib::Request& request, httplib::Response& response) {
      const auto found = models.find(request.matches[1]);
      if (found == models.end()) return fail(response, 404, "there is no model '" + std::string(request.matches[1]) + "'");
      action(*found->second, request, response);
    };
  };
  server.Get(R"(/v2/models/([^/]+))", with_model([](ServedModel& model, const httplib::Request&, httplib::Response& response) {
               response.set_content(description(model).dump(), "application/json");
             }));
  server.Post(R"(/v2/models/([^/]+)/infer)", with_model(infer));

  std::atomic<bool> has_ended = false;
  std::thread signal_thread([&] {
    for (int signal = 0; sigwait(&signals, &signal) == 0;) {
      if (signal != SIGHUP) break;
      for (const auto& [name, model] : models) {
        try {
          model->reload();
        } catch (const std::exception& error) {
          std::fprintf(stderr, "%s: the old weights stay: %s\n", name.c_str(), error.what());
        }
      }
    }
    // What does not run yet cannot be stopped.
    while (!has_ended && !server.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    server.stop();
  });
  const int bound = port == 0 ? server.bind_to_any_port("127.0.0.1") : server.bind_to_port("127.0.0.1", port) ? port : -1;
  if (bound > 0) std::fprintf(stderr, "listening on 127.0.0.1:%d\n", bound);
  const bool served = bound > 0 && server.listen_after_bind();
  if (!served) std::fprintf(stderr, "cannot listen on port %d\n", port);
  has_ended = true;
  kill(getpid(), SIGTERM);
  signal_thread.join();
  return served ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
