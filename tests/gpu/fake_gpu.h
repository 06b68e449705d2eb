/* What the parts of the fake driver share (fake_gpu.c, fake_cudnn.c, fake_nccl.c, fake_peers.c). */
#ifndef FAKE_GPU_H
#define FAKE_GPU_H

#include <stddef.h>

/* Does FAKE_GPU in the environment say this? */
int fake_is(const char* what);
/* run(argument) as work on a stream, which takes so long: at once, or in each launch of the graph that the stream is captured into. */
int fake_start(void* stream, void (*run)(void*), void* argument, float milliseconds);
/* Notes a launch as a letter, or as the other one where its stream joined a capture. */
void fake_note(void* stream, char letter, char joined);
/* Memory that is not the fake driver's own is on the current device; it is no more. */
void fake_add_block(char* data, size_t bytes);
void fake_remove_block(const char* data);
/* Is it the text of the kernel that marks a word of another process's and waits for its own? And its launch. */
int fake_is_meeting(const char* image);
int fake_meet(void* stream, void** arguments);
/* Does another process have the memory there? */
int fake_is_of_peer(const char* at);
/* Ends the process if a copy to such memory is not known to have ended. */
void fake_require_ends_of_peer_copies(void);

#endif
