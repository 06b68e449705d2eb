#include "driver/package/provenance.h"

#include <gtest/gtest.h>

#include "base/error_for_test.h"
#include "codegen/wrapper/package_entry.h"
#include "toroid/toroid.h"

namespace toroid {
namespace {

// What a library has for its provenance before it is written.
std::string place_for_provenance() {
  std::string place = std::string(codegen::kProvenanceWord) + "compiler g++ 12\n";
  place.resize(codegen::kProvenanceBytes);
  return place;
}

TEST(Provenance, IsWrittenOnce) {
  const std::string library = with_provenance("code" + place_for_provenance() + "data", {});
  EXPECT_EQ(provenance_in(library), std::string("compiler g++ 12\n") + toroid_api(TOROID_API_VERSION)->description + "\n");
  EXPECT_EQ(library.size(), codegen::kProvenanceBytes + 8);
  EXPECT_EQ(with_provenance(library, {}), library);
}

TEST(Provenance, IsNotWhatAModelCallsItsTensors) {
  const std::string name = std::string(codegen::kProvenanceWord) + "model another.pt2\n";
  const std::string names = name + '\0' + name + '\0' + std::string(700, 'x');
  for (const std::string& library : {names + place_for_provenance(), place_for_provenance() + names}) {
    const std::string written = with_provenance(library, {});
    EXPECT_EQ(provenance_in(written).substr(0, 16), "compiler g++ 12\n");
    EXPECT_NE(written.find(names), written.npos) << "the names are as they were";
  }
}

TEST(Provenance, OfAModelWithSuchAPlaceIsRefused) {
  const std::string library = place_for_provenance() + place_for_provenance();
  EXPECT_EQ(provenance_in(library), "");
  const Error error = error_of([&] { with_provenance(library, {}); });
  EXPECT_EQ(error.kind(), ErrorKind::Unsupported);
  EXPECT_EQ(error.message(), "the model holds what marks where a package says where it comes from, and zeros behind it");
}

TEST(Provenance, IsNotWrittenWhereThereIsNoPlace) { EXPECT_EQ(with_provenance("code", {}), "code"); }

}  // namespace
}  // namespace toroid
