// A small `.pt2` archive that a test can spoil in one place:
//
//   class Net:  w = Parameter([2, 2]);  def forward(self, x): return x @ self.w + 1
//
//   Pt2ForTest model;
//   replace(model.model_json, R"("dtype": 7)", R"("dtype": 99)");
//   model.import();
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "frontend/archive/zip_for_test.h"
#include "frontend/pt2/import.h"

namespace toroid {

// Replaces the first `from`, which must be there.
inline void replace(std::string& text, std::string_view from, std::string_view to) {
  const size_t found = text.find(from);
  TOROID_CHECK(found != text.npos, "the text to replace is there: {}", from);
  text.replace(found, from.size(), to);
}

struct Pt2ForTest {
  std::string model_json = R"({
"graph_module": {
  "graph": {
    "inputs": [{"as_tensor": {"name": "p_w"}}, {"as_tensor": {"name": "x"}}],
    "outputs": [{"as_tensor": {"name": "add"}}],
    "nodes": [
      {"target": "torch.ops.aten.mm.default",
       "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "x"}}, "kind": 1},
                  {"name": "mat2", "arg": {"as_tensor": {"name": "p_w"}}, "kind": 1}],
       "outputs": [{"as_tensor": {"name": "mm"}}],
       "metadata": {"stack_trace": "File \"/home/me/net.py\", line 7, in forward\n    y = x @ self.w",
                    "nn_module_stack": "L__self__,,net.Net;L__self___body,body,net.Body"},
       "name": "mm"},
      {"target": "torch.ops.aten.add.Tensor",
       "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "mm"}}, "kind": 1},
                  {"name": "other", "arg": {"as_int": 1}, "kind": 1}],
       "outputs": [{"as_tensor": {"name": "add"}}], "metadata": {}, "name": "add"}
    ],
    "tensor_values": {
      "p_w": {"dtype": 7, "sizes": [{"as_int": 2}, {"as_int": 2}], "requires_grad": false,
              "device": {"type": "cpu", "index": null}, "strides": [{"as_int": 2}, {"as_int": 1}],
              "storage_offset": {"as_int": 0}, "layout": 7},
      "x": {"dtype": 7, "sizes": [{"as_int": 3}, {"as_int": 2}], "requires_grad": false,
            "device": {"type": "cpu", "index": null}, "strides": [{"as_int": 2}, {"as_int": 1}],
            "storage_offset": {"as_int": 0}, "layout": 7},
      "mm": {"dtype": 7, "sizes": [{"as_int": 3}, {"as_int": 2}], "requires_grad": false,
             "device": {"type": "cpu", "index": null}, "strides": [{"as_int": 2}, {"as_int": 1}],
             "storage_offset": {"as_int": 0}, "layout": 7},
      "add": {"dtype": 7, "sizes": [{"as_int": 3}, {"as_int": 2}], "requires_grad": false,
              "device": {"type": "cpu", "index": null}, "strides": [{"as_int": 2}, {"as_int": 1}],
              "storage_offset": {"as_int": 0}, "layout": 7}
    },
    "sym_int_values": {}, "sym_bool_values": {}, "is_single_tensor_return": false
  },
  "signature": {
    "input_specs": [{"parameter": {"arg": {"name": "p_w"}, "parameter_name": "body.w"}},
                    {"user_input": {"arg": {"as_tensor": {"name": "x"}}}}],
    "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "add"}}}}]
  },
  "module_call_graph": []
},
"opset_version": {"aten": 10}, "range_constraints": {}, "schema_version": {"major": 8, "minor": 17},
"torch_version": "2.11.0", "guards_code": []
})";
  std::string weights_json = R"({"config": {"body.w": {"path_name": "weight_0", "is_param": true, "use_pickle": false,
"tensor_meta": {"dtype": 7, "sizes": [{"as_int": 2}, {"as_int": 2}], "requires_grad": false,
                "device": {"type": "cpu", "index": null}, "strides": [{"as_int": 2}, {"as_int": 1}],
                "storage_offset": {"as_int": 0}, "layout": 7}}}})";
  std::string weight = std::string(16, '\x3f');
  std::string format = "pt2";
  std::string version = "0";
  std::string byteorder = "little";
  std::string model_name = "model";

  ZipForTest zip() const {
    ZipForTest zip;
    zip.add("net/data/weights/weight_0", weight);
    zip.add("net/data/weights/" + model_name + "_weights_config.json", weights_json);
    zip.add("net/models/" + model_name + ".json", model_json);
    zip.add("net/data/sample_inputs/model.pt", "never read");
    zip.add("net/archive_format", format);
    zip.add("net/archive_version", version);
    zip.add("net/byteorder", byteorder);
    return zip;
  }

  Program import(const Pt2Options& options = {}) const { return import_bytes(zip().build(), options); }

  static Program import_bytes(const std::string& bytes, const Pt2Options& options = {}) {
    auto owner = std::make_shared<const std::string>(bytes);
    return import_pt2(std::as_bytes(std::span(*owner)), owner, "net.pt2", options);
  }
};

}  // namespace toroid
