// What mylib.hash_bucket.op calls: FNV-1a of each word's bytes, once for each salt.
#include <stdint.h>

void hash_bucket(const int64_t* words, int64_t buckets, const int64_t* salts, int64_t num_salts, int64_t* out, int64_t n, int64_t begin,
                 int64_t end) {
  (void)n;
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t s = 0; s < num_salts; ++s) {
      uint64_t hash = 0xcbf29ce484222325u ^ (uint64_t)salts[s];
      for (int shift = 0; shift < 64; shift += 8) hash = (hash ^ ((uint64_t)words[i] >> shift & 255)) * 0x100000001b3u;
      out[i * num_salts + s] = (int64_t)(hash % (uint64_t)buckets);
    }
  }
}
