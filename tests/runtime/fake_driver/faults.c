// Calls that fail on demand, and a count of what is alive. Whoever asks for an entry point gets one of these gates: it
// counts the call, fails it if that was asked for, and goes on to the function. So each function has one, new ones too.
// Arguments are passed on as words: no function here takes a floating-point number, and none more than 14 words.
enum { GATES = 192, STICKY_A = 700, STICKY_B = 719, STICKY_C = 999 };
typedef u64 W;
typedef int (*Entry14)(W, W, W, W, W, W, W, W, W, W, W, W, W, W);
static struct { char name[48]; Entry14 function; int calls, fails_at, code; } gates[GATES];
static int gate_count;
static pthread_mutex_t gates_lock = PTHREAD_MUTEX_INITIALIZER;

// What a call makes (1) or ends (-1), of which kind.
int kaio_alive[7];
static const struct { const char *name; int kind, by; } MAKES[] = {
    {"cuMemAllocFromPoolAsync", 0, 1}, {"cuMemFreeAsync", 0, -1}, {"cuMemAlloc", 1, 1}, {"cuMemFree", 1, -1},
    {"cuMemHostAlloc", 2, 1}, {"cuMemFreeHost", 2, -1}, {"cuStreamCreateWithPriority", 3, 1}, {"cuStreamDestroy", 3, -1},
    {"cuEventCreate", 4, 1}, {"cuEventDestroy", 4, -1}, {"cuGraphCreate", 5, 1}, {"cuGraphDestroy", 5, -1},
    {"cuGraphInstantiateWithFlags", 6, 1}, {"cuGraphExecDestroy", 6, -1},
};

static int failed_on_demand(int k) {
    pthread_mutex_lock(&gates_lock);
    int code = ++gates[k].calls == gates[k].fails_at ? gates[k].code : 0;
    pthread_mutex_unlock(&gates_lock);
    if (code == STICKY_A || code == STICKY_B || code == STICKY_C) {  // the context is of no use from now on
        pthread_mutex_lock(&lock);
        error = code;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    return code;
}

static int pass(int k, W a, W b, W c, W d, W e, W f, W g, W h, W i, W j, W l, W m, W n, W o) {
    int code = failed_on_demand(k);
    if (code) {  // a capture is over however its end is answered
        if (!strcmp(gates[k].name, "cuStreamEndCapture")) gates[k].function(a, b, c, d, e, f, g, h, i, j, l, m, n, o);
        return code;
    }
    code = gates[k].function(a, b, c, d, e, f, g, h, i, j, l, m, n, o);
    if (code) return code;
    for (unsigned q = 0; q < sizeof MAKES / sizeof *MAKES; q++)
        if (!strcmp(MAKES[q].name, gates[k].name)) __atomic_add_fetch(&kaio_alive[MAKES[q].kind], MAKES[q].by, __ATOMIC_SEQ_CST);
    return 0;
}

#define GATE(k) static int gate_##k(W a, W b, W c, W d, W e, W f, W g, W h, W i, W j, W l, W m, W n, W o) { return pass(0x##k, a, b, c, d, e, f, g, h, i, j, l, m, n, o); }
#define SIXTEEN(X, t) X(t##0) X(t##1) X(t##2) X(t##3) X(t##4) X(t##5) X(t##6) X(t##7) X(t##8) X(t##9) X(t##a) X(t##b) X(t##c) X(t##d) X(t##e) X(t##f)
#define ALL(X) SIXTEEN(X, 0) SIXTEEN(X, 1) SIXTEEN(X, 2) SIXTEEN(X, 3) SIXTEEN(X, 4) SIXTEEN(X, 5) SIXTEEN(X, 6) SIXTEEN(X, 7) SIXTEEN(X, 8) SIXTEEN(X, 9) SIXTEEN(X, a) SIXTEEN(X, b)
#define NAMED(k) gate_##k,
ALL(GATE)
static const Entry14 GATE_AT[GATES] = {ALL(NAMED)};

static void *gate_of(const char *name, void *function) {
    void *found = function;
    pthread_mutex_lock(&gates_lock);
    int k = 0;
    while (k < gate_count && strcmp(gates[k].name, name)) k++;
    if (k < GATES) {
        if (k == gate_count) {
            snprintf(gates[k].name, sizeof gates[k].name, "%s", name);
            gates[k].function = (Entry14)function;
            gate_count++;
        }
        found = (void *)GATE_AT[k];
    }
    pthread_mutex_unlock(&gates_lock);
    return found;
}

// Let a call fail, once: the nth from now on, none if that is 0. The answer is 0 if there is no such function.
int kaio_fail(const char *name, int code, int nth) {
    int found = 0;
    pthread_mutex_lock(&gates_lock);
    for (int k = 0; k < gate_count; k++) if (!strcmp(gates[k].name, name)) {
        gates[k].code = code;
        gates[k].fails_at = gates[k].calls + nth;
        found = 1;
    }
    pthread_mutex_unlock(&gates_lock);
    return found;
}

// How often each function was called: a line for each with a name and a number.
char kaio_counts[GATES * 64];
void kaio_count(void) {
    int at = 0;
    pthread_mutex_lock(&gates_lock);
    for (int k = 0; k < gate_count; k++) at += snprintf(kaio_counts + at, 64, "%s %d\n", gates[k].name, gates[k].calls);
    pthread_mutex_unlock(&gates_lock);
}
