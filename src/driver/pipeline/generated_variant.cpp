#include "driver/pipeline/generated_variant.h"

#include <map>

#include "codegen/wrapper/program_tables.h"

namespace toroid {

ConstantTable::ConstantTable(const std::vector<GeneratedVariant>& variants) {
  std::map<std::pair<const std::byte*, size_t>, size_t> positions;
  for (const GeneratedVariant& variant : variants) {
    by_variant.emplace_back();
    for (ConstantId id : variant.code.module.constants) {
      const ConstantData& data = variant.program.constant(id);
      const auto [found, is_new] = positions.try_emplace({data.bytes.data(), data.bytes.size()}, all.size());
      if (is_new) all.push_back(&data);
      by_variant.back().push_back(found->second);
    }
  }
}

std::string tables_text(const std::vector<GeneratedVariant>& variants, const ConstantTable& constants, const codegen::ProgramTexts& texts) {
  std::vector<codegen::VariantTables> tables;
  for (size_t i = 0; i < variants.size(); ++i)
    tables.push_back({variants[i].program, variants[i].code, variants[i].when, constants.by_variant[i]});
  return codegen::program_tables(tables, constants.all, texts);
}

}  // namespace toroid
