/* The memory of this process that is there, in KiB; Linux. */
#ifndef TOROID_TESTS_C_API_RESIDENT_H
#define TOROID_TESTS_C_API_RESIDENT_H

#include <stdio.h>
#include <unistd.h>

static long resident_kib(void) {
  long pages = 0, resident = 0;
  FILE* const file = fopen("/proc/self/statm", "r");
  if (file != NULL && fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
  if (file != NULL) fclose(file);
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

#endif
