/* What carries an exception from where it is thrown to its handler, in the place of libgcc's: a quarter of the code, for it knows what g++
 * and clang++ write for x86-64 alone. Exceptions of a package stay in it (glibc.c: _Unwind_Find_FDE); what it does not know ends the
 * process.
 *
 * Context has the layout of libgcc's: where a host's thread is cancelled in a package, the C library goes through its frames by the host's
 * libgcc_s.so.1, which gives its own to the package's functions, and the other way round. */
#if defined(__x86_64__)
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- "Itanium C++ ABI: Exception Handling", 1.1 to 1.6 */

typedef enum {
  kOk = 0,
  kFatalInSecondPhase = 2,
  kFatalInFirstPhase = 3,
  kEndOfStack = 5,
  kHandlerFound = 6,
  kInstallContext = 7,
  kContinueUnwind = 8
} Reason;
enum { kSearch = 1, kCleanup = 2, kHandlerFrame = 4, kForced = 8, kStackEnded = 16 };

typedef struct Context Context;
typedef struct Exception Exception;
struct Exception {
  uint64_t class;
  void (*cleanup)(Reason, Exception*);
  uintptr_t private_1, private_2; /* 0 and the handler's frame, or, of a forced one, a function and its argument */
} __attribute__((aligned));
typedef Reason (*Personality)(int version, int actions, uint64_t class, Exception*, Context*);
typedef Reason (*Stop)(int version, int actions, uint64_t class, Exception*, Context*, void* argument);

/* ---- "System V ABI, AMD64 Architecture Processor Supplement", 3.36: registers as DWARF numbers them */

enum { kRax, kRdx, kRbx = 3, kRbp = 6, kRsp = 7, kR12 = 12, kR15 = 15, kReturn = 16, kRegisters };

typedef struct { /* struct dwarf_eh_bases */
  void *text, *data, *function;
} FrameBases;
struct Context {
  uintptr_t* reg[kRegisters + 1]; /* where the values are */
  uintptr_t cfa, ra;
  const uint8_t* lsda;
  FrameBases bases;
  uint64_t flags, version, args_size;
  char is_value[kRegisters + 1]; /* reg is the value itself, if the flag below is set */
};
#define kHasValues ((uint64_t)1 << 62)
#define kIsSignalFrame ((uint64_t)1 << 63)

#pragma GCC visibility push(hidden)

const uint8_t* _Unwind_Find_FDE(void* address, FrameBases* bases);

/* ---- what personality routines ask */

void _Unwind_SetGR(Context* context, int i, uintptr_t value) {
  if ((context->flags & kHasValues) != 0 && context->is_value[i] != 0)
    context->reg[i] = (uintptr_t*)value;
  else
    *context->reg[i] = value;
}
uintptr_t _Unwind_GetIPInfo(Context* context, int* is_before) {
  *is_before = (context->flags & kIsSignalFrame) != 0;
  return context->ra;
}
void _Unwind_SetIP(Context* context, uintptr_t value) { context->ra = value; }
const void* _Unwind_GetLanguageSpecificData(Context* context) { return context->lsda; }
uintptr_t _Unwind_GetRegionStart(Context* context) { return (uintptr_t)context->bases.function; }
uintptr_t _Unwind_GetTextRelBase(Context* context) { return (uintptr_t)context->bases.text; }
uintptr_t _Unwind_GetDataRelBase(Context* context) { return (uintptr_t)context->bases.data; }
void _Unwind_DeleteException(Exception* exception) {
  if (exception->cleanup != NULL) exception->cleanup(1, exception);
}

/* ---- descriptions of frames: DWARF 4, 6.4, and "Linux Standard Base Core Specification", 10.6 */

static uint64_t unsigned_number(const uint8_t** at) {
  uint64_t number = 0;
  int shift = 0;
  uint8_t byte;
  do {
    byte = *(*at)++;
    number |= (uint64_t)(byte & 0x7f) << shift;
    shift += 7;
  } while ((byte & 0x80) != 0);
  return number;
}
static int64_t signed_number(const uint8_t** at) {
  const uint8_t* const begin = *at;
  const uint64_t number = unsigned_number(at);
  const int shift = 7 * (int)(*at - begin);
  return shift < 64 && ((*at)[-1] & 0x40) != 0 ? (int64_t)(number | ~(uint64_t)0 << shift) : (int64_t)number;
}
static uint64_t bytes(const uint8_t** at, size_t count) {
  uint64_t number = 0;
  memcpy(&number, *at, count);
  *at += count;
  return number;
}
/* DW_EH_PE_absptr, _pcrel | _sdata4, and the latter | _indirect */
static uintptr_t pointer(const uint8_t** at, uint8_t encoding) {
  if (encoding == 0) return bytes(at, 8);
  if ((encoding & 0x7f) != 0x1b) abort();
  const uintptr_t from = (uintptr_t)*at;
  const int32_t offset = (int32_t)bytes(at, 4);
  if (offset == 0) return 0;
  const uintptr_t value = from + (uintptr_t)(intptr_t)offset;
  return (encoding & 0x80) != 0 ? *(const uintptr_t*)value : value;
}

/* Where a register's value of the caller is: nowhere else than here, at an offset from the frame, or where an expression says. */
enum { kSame, kAtOffset, kAtExpression };
typedef struct {
  uint8_t how[kRegisters], cfa_how, cfa_register; /* cfa_how: kAtOffset from cfa_register, or kAtExpression, the value itself */
  int64_t at[kRegisters], cfa_at;                 /* offsets, or addresses of expressions */
} Rules;
typedef struct {
  Rules rules;
  Personality personality;
  uint64_t code_factor;
  int64_t data_factor;
} Frame;

static void set_rule(Rules* rules, uint64_t i, int how, int64_t at) {
  if (i >= kRegisters) return; /* vectors, which no caller expects back */
  rules->how[i] = (uint8_t)how;
  rules->at[i] = at;
}
static int64_t block(const uint8_t** at) {
  const int64_t begin = (int64_t)(uintptr_t)*at;
  const uint64_t size = unsigned_number(at);
  *at += size;
  return begin;
}

enum { kMostRemembered = 8 };

/* Until the code at `ra`. */
static void run_rules(const uint8_t* at, const uint8_t* end, uintptr_t code, uintptr_t ra, const Rules* initial, Frame* frame,
                      Context* context) {
  Rules remembered[kMostRemembered], *const rules = &frame->rules;
  int count = 0;
  while (at < end && code < ra) {
    const uint8_t byte = *at++, low = byte & 0x3f;
    uint64_t i = low;
    switch (byte & 0xc0) {
      case 0x40: code += low * frame->code_factor; continue;                                                              /* advance_loc */
      case 0x80: set_rule(rules, low, kAtOffset, (int64_t)unsigned_number(&at) * frame->data_factor); continue; /* offset */
      case 0xc0: set_rule(rules, low, initial->how[low % kRegisters], initial->at[low % kRegisters]); continue; /* restore */
    }
    switch (byte) {
      case 0x00: break;                                              /* nop */
      case 0x02: code += bytes(&at, 1) * frame->code_factor; break; /* advance_loc1 */
      case 0x03: code += bytes(&at, 2) * frame->code_factor; break; /* advance_loc2 */
      case 0x04: code += bytes(&at, 4) * frame->code_factor; break; /* advance_loc4 */
      case 0x05:                                                     /* offset_extended */
        i = unsigned_number(&at);
        set_rule(rules, i, kAtOffset, (int64_t)unsigned_number(&at) * frame->data_factor);
        break;
      case 0x06: /* restore_extended */
        i = unsigned_number(&at);
        set_rule(rules, i, initial->how[i % kRegisters], initial->at[i % kRegisters]);
        break;
      case 0x07:                                                                  /* undefined */
      case 0x08: set_rule(rules, unsigned_number(&at), kSame, 0); break; /* same_value */
      case 0x0a: /* remember_state */
        if (count == kMostRemembered) abort();
        remembered[count++] = *rules;
        break;
      case 0x0b: /* restore_state */
        if (count == 0) abort();
        *rules = remembered[--count];
        break;
      case 0x0c: /* def_cfa */
        rules->cfa_register = (uint8_t)unsigned_number(&at);
        rules->cfa_at = (int64_t)unsigned_number(&at);
        rules->cfa_how = kAtOffset;
        break;
      case 0x0d: /* def_cfa_register */
        rules->cfa_register = (uint8_t)unsigned_number(&at);
        rules->cfa_how = kAtOffset;
        break;
      case 0x0e: rules->cfa_at = (int64_t)unsigned_number(&at); break; /* def_cfa_offset */
      case 0x0f:                                                        /* def_cfa_expression */
        rules->cfa_at = block(&at);
        rules->cfa_how = kAtExpression;
        break;
      case 0x10: /* expression */
        i = unsigned_number(&at);
        set_rule(rules, i, kAtExpression, block(&at));
        break;
      case 0x11: /* offset_extended_sf */
        i = unsigned_number(&at);
        set_rule(rules, i, kAtOffset, signed_number(&at) * frame->data_factor);
        break;
      case 0x2e: context->args_size = unsigned_number(&at); break; /* GNU_args_size: a call's arguments on the stack */
      default: abort();
    }
  }
}

static uintptr_t value_of(const Context* context, uint64_t i) {
  if (i == kRsp) return context->cfa;
  if (i >= kRegisters || context->reg[i] == NULL) abort();
  return *context->reg[i];
}

/* Of what compilers write for frames that are aligned: a register and an offset, and what is there. */
static uintptr_t expression(const Context* context, int64_t where, uintptr_t value) {
  const uint8_t* at = (const uint8_t*)(uintptr_t)where;
  const uint64_t size = unsigned_number(&at);
  const uint8_t* const end = at + size;
  while (at < end) {
    const uint8_t byte = *at++;
    if (byte >= 0x70 && byte <= 0x8f)
      value = value_of(context, byte - 0x70) + (uintptr_t)signed_number(&at); /* breg */
    else if (byte == 0x06)
      value = *(const uintptr_t*)value; /* deref */
    else if (byte == 0x23)
      value += unsigned_number(&at); /* plus_uconst */
    else
      abort();
  }
  return value;
}

/* What is known about the frame whose code `context->ra` is in. False where the stack, as far as it is the package's, ends. */
static int find_frame(Context* context, Frame* frame) {
  memset(frame, 0, sizeof *frame);
  context->lsda = NULL;
  context->args_size = 0;
  if (context->ra == 0) return 0;
  const uint8_t* at = _Unwind_Find_FDE((void*)(context->ra - 1), &context->bases);
  if (at == NULL) return 0;
  const uint64_t length = bytes(&at, 4);
  const uint8_t* const end = at + length;
  const uint8_t* common = at;
  common -= bytes(&at, 4);
  const uint64_t common_length = bytes(&common, 4);
  const uint8_t* const common_end = common + common_length;
  common += 4;
  const uint8_t version = *common++;
  const char* augmentation = (const char*)common;
  if ((version != 1 && version != 3) || *augmentation++ != 'z') abort();
  common += strlen((const char*)common) + 1;
  frame->code_factor = unsigned_number(&common);
  frame->data_factor = signed_number(&common);
  unsigned_number(&common); /* the return address's column */
  unsigned_number(&common); /* bytes of what follows */
  uint8_t of_lsda = 0xff, of_code = 0;
  for (; *augmentation != '\0'; ++augmentation) {
    const uint8_t encoding = *common++;
    if (*augmentation == 'R')
      of_code = encoding;
    else if (*augmentation == 'L')
      of_lsda = encoding;
    else if (*augmentation == 'P')
      frame->personality = (Personality)pointer(&common, encoding);
    else
      abort();
  }
  const uintptr_t code = pointer(&at, of_code);
  at += of_code == 0 ? 8 : 4; /* its size */
  const uint64_t size = unsigned_number(&at);
  const uint8_t* const instructions = at + size;
  if (of_lsda != 0xff) context->lsda = (const uint8_t*)pointer(&at, of_lsda);
  const Rules none = frame->rules;
  run_rules(common, common_end, 0, 1, &none, frame, context);
  const Rules initial = frame->rules;
  run_rules(instructions, end, code, context->ra, &initial, frame, context);
  return 1;
}

/* To the caller. */
static void leave_frame(Context* context, const Frame* frame) {
  const Rules* const rules = &frame->rules;
  const Context inner = *context;
  context->cfa = rules->cfa_how == kAtOffset ? value_of(&inner, rules->cfa_register) + (uintptr_t)rules->cfa_at
                                             : expression(&inner, rules->cfa_at, 0);
  for (int i = 0; i < kRegisters; ++i) {
    if (rules->how[i] == kAtOffset) context->reg[i] = (uintptr_t*)(context->cfa + (uintptr_t)rules->at[i]);
    if (rules->how[i] == kAtExpression) context->reg[i] = (uintptr_t*)expression(&inner, rules->at[i], context->cfa);
  }
  context->ra = *context->reg[kReturn];
}

/* ---- from frame to frame */

/* What a function's caller expects back, and the two registers that a handler gets. */
typedef struct {
  uintptr_t rbx, rbp, r12, r13, r14, r15, rax, rdx, rsp, rip;
} Registers;

static void begin(Context* context, Registers* registers) {
  memset(context, 0, sizeof *context);
  context->reg[kRax] = &registers->rax;
  context->reg[kRdx] = &registers->rdx;
  context->reg[kRbx] = &registers->rbx;
  context->reg[kRbp] = &registers->rbp;
  for (int i = 0; i < 4; ++i) context->reg[kR12 + i] = &registers->r12 + i;
  context->flags = kHasValues;
  context->cfa = registers->rsp;
  context->ra = registers->rip;
}

void toroid_go_on(const Registers* registers) __attribute__((noreturn)); /* below */

static __attribute__((noreturn)) void install(Context* context) {
  Registers registers = {*context->reg[kRbx], *context->reg[kRbp], *context->reg[kR12], *context->reg[kR12 + 1], *context->reg[kR12 + 2],
                         *context->reg[kR15], *context->reg[kRax], *context->reg[kRdx], context->cfa + context->args_size, context->ra};
  toroid_go_on(&registers);
}

/* Both phases' second one; returns where it fails. */
static Reason clean_up(Exception* exception, Context* context) {
  const Stop stop = (Stop)exception->private_1;
  for (;;) {
    Frame frame;
    const int is_there = find_frame(context, &frame);
    int actions = stop != NULL ? kCleanup | kForced : kCleanup;
    if (stop != NULL && stop(1, actions | (is_there ? 0 : kStackEnded), exception->class, exception, context,
                             (void*)exception->private_2) != kOk)
      return kFatalInSecondPhase;
    if (!is_there) return stop != NULL ? kEndOfStack : kFatalInSecondPhase;
    if (stop == NULL && context->cfa == exception->private_2) actions |= kHandlerFrame;
    if (frame.personality != NULL) {
      const Reason reason = frame.personality(1, actions, exception->class, exception, context);
      if (reason == kInstallContext) install(context);
      if (reason != kContinueUnwind) return kFatalInSecondPhase;
    }
    if ((actions & kHandlerFrame) != 0) abort();
    leave_frame(context, &frame);
  }
}

Reason toroid_raise(Exception* exception, Registers* registers) {
  Context context;
  begin(&context, registers);
  for (;;) {
    Frame frame;
    if (!find_frame(&context, &frame)) return kEndOfStack;
    if (frame.personality != NULL) {
      const Reason reason = frame.personality(1, kSearch, exception->class, exception, &context);
      if (reason == kHandlerFound) break;
      if (reason != kContinueUnwind) return kFatalInFirstPhase;
    }
    leave_frame(&context, &frame);
  }
  exception->private_1 = 0;
  exception->private_2 = context.cfa;
  begin(&context, registers);
  return clean_up(exception, &context);
}

Reason toroid_go_on_cleaning(Exception* exception, Registers* registers) {
  Context context;
  begin(&context, registers);
  clean_up(exception, &context);
  abort();
}

Reason toroid_raise_again(Exception* exception, Registers* registers) {
  return exception->private_1 == 0 ? toroid_raise(exception, registers) : toroid_go_on_cleaning(exception, registers);
}

/* The registers as the caller has them are written below its return address, and go with the exception to a function, which may return. */
#define TOROID_ENTRY(NAME, FUNCTION)                                                                                      \
  asm(".pushsection .text." NAME ",\"ax\",@progbits\n.globl " NAME "\n.hidden " NAME "\n.type " NAME ", @function\n" NAME \
      ":\nleaq 8(%rsp), %rax\npushq %rax\npushq $0\npushq $0\npushq %r15\npushq %r14\npushq %r13\npushq %r12\n"          \
      "pushq %rbp\npushq %rbx\nmovq %rsp, %rsi\ncall " FUNCTION "\naddq $72, %rsp\nret\n.size " NAME ", .-" NAME          \
      "\n.popsection")
TOROID_ENTRY("_Unwind_RaiseException", "toroid_raise");
TOROID_ENTRY("_Unwind_Resume", "toroid_go_on_cleaning");
TOROID_ENTRY("_Unwind_Resume_or_Rethrow", "toroid_raise_again");

asm(".pushsection .text.toroid_go_on,\"ax\",@progbits\n.globl toroid_go_on\n.hidden toroid_go_on\n.type toroid_go_on, @function\n"
    "toroid_go_on:\nmovq (%rdi), %rbx\nmovq 8(%rdi), %rbp\nmovq 16(%rdi), %r12\nmovq 24(%rdi), %r13\nmovq 32(%rdi), %r14\n"
    "movq 40(%rdi), %r15\nmovq 48(%rdi), %rax\nmovq 56(%rdi), %rdx\nmovq 72(%rdi), %rcx\nmovq 64(%rdi), %rsp\njmpq *%rcx\n"
    ".size toroid_go_on, .-toroid_go_on\n.popsection");

#pragma GCC visibility pop
#endif
