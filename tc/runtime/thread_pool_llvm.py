"""The machine code of `thread_pool`, in LLVM's language; words in capitals, as SLOTS, are
numbers. `RUN_REGIONS` needs no pool.

Sets of processors are bytes in memory and no integers: LLVM takes 6 ms to compile the operations on
two integers of 1024 bits, and 7 ms for all other code."""

CODE = """
; left; region, arguments, failures, width, parts; floating-point modes, processor | done, waiting,
; taken
; the two halves are written by different threads: each has a pair of cache lines of its own
%call = type { ptr, i64, i64, i64, i64 }
%slot = type { i64, %call, i32, i32, [72 x i8], i32, i32, i32, [116 x i8] }
; slots | asleep, signal | patience, workers, whether they have been started, the process, the
; processors that it might use when they were, a bit each; how many workers have begun, the
; processor on which each of them sleeps, from 1 (0: it is awake), and their records; the ticks in
; which workers begin that sleep, and that spin, and when last it did not pay to wake them
%pool = type { [SLOTS x %slot], i32, i32, [120 x i8], i64, i64, i64, i64, [BYTES x i8],
               i64, [WORKERS x i32], [WORKERS x ptr], i64, i64, i64 }
; of a worker: its number, that of its thread for the system, and, where a launching thread has sent
; it away from a processor (SENT), that processor and those that it might use before
%worker = type { i64, i64, i32, i32, [BYTES x i8] }
@short = internal constant { i64, i64 } { i64 0, i64 100000 }
@pool = global %pool zeroinitializer, align 128

declare i64 @llvm.readcyclecounter()
declare void @llvm.x86.sse2.pause()
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare i64 @llvm.ctpop.i64(i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i32 @memcmp(ptr, ptr, i64)
declare i64 @syscall(i64, ...)
declare i32 @sched_getcpu()

define internal void @futex(ptr %word, i64 %operation, i32 %number, ptr %time) {
  %value = zext i32 %number to i64
  call i64 (i64, ...) @syscall(i64 202, ptr %word, i64 %operation, i64 %value, ptr %time)
  ret void
}

define internal void @sleep(ptr %word, i32 %expected) {
  call void @futex(ptr %word, i64 128, i32 %expected, ptr null)
  ret void
}

define internal void @wake(ptr %word, i32 %most) {
  call void @futex(ptr %word, i64 129, i32 %most, ptr null)
  ret void
}

define internal i1 @impatient(i64 %began) {
  call void @llvm.x86.sse2.pause()
  %now = call i64 @llvm.readcyclecounter()
  %passed = sub i64 %now, %began
  %patience = load i64, ptr getelementptr (%pool, ptr @pool, i64 0, i32 4)
  %over = icmp uge i64 %passed, %patience
  ret i1 %over
}

define internal void @run(ptr %slot, i64 %number) {
  %call_at = getelementptr %slot, ptr %slot, i64 0, i32 1
  %call = load %call, ptr %call_at
  %region = extractvalue %call %call, 0
  %arguments = extractvalue %call %call, 1
  %failures = extractvalue %call %call, 2
  %width = extractvalue %call %call, 3
  %parts = extractvalue %call %call, 4
  %offset = mul i64 %width, %number
  %record = add i64 %failures, %offset
  call void %region(i64 %arguments, i64 %record, i64 %number, i64 %parts)
  ret void
}

; the processors that a thread may use, a bit each: 0 is this one, a process stands for its first
define internal i1 @allowed(i64 %thread, ptr %processors) {
  call void @llvm.memset.p0.i64(ptr align 8 %processors, i8 0, i64 BYTES, i1 false)
  %status = call i64 (i64, ...) @syscall(i64 204, i64 %thread, i64 BYTES, ptr %processors)
  %known = icmp sgt i64 %status, 0
  ret i1 %known
}

define internal i1 @confine(i64 %thread, ptr %processors) {
  %status = call i64 (i64, ...) @syscall(i64 203, i64 %thread, i64 BYTES, ptr %processors)
  %done = icmp eq i64 %status, 0
  ret i1 %done
}

; goes along where the process has been confined to other processors than were known
define internal void @follow(ptr %known) {
start:
  %now = alloca [BYTES x i8], align 8
  %process = load i64, ptr getelementptr (%pool, ptr @pool, i64 0, i32 7)
  %told = call i1 @allowed(i64 %process, ptr %now)
  br i1 %told, label %compare, label %end
compare:
  %difference = call i32 @memcmp(ptr %known, ptr %now, i64 BYTES)
  %same = icmp eq i32 %difference, 0
  br i1 %same, label %end, label %move
move:
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %known, ptr align 8 %now, i64 BYTES, i1 false)
  %moved = call i1 @confine(i64 0, ptr %now)
  br label %count
count:
  %offset = phi i64 [ 0, %move ], [ %next, %count ]
  %counted = phi i64 [ 0, %move ], [ %processors, %count ]
  %word_at = getelementptr i8, ptr %now, i64 %offset
  %word = load i64, ptr %word_at
  %number = call i64 @llvm.ctpop.i64(i64 %word)
  %processors = add i64 %counted, %number
  %next = add i64 %offset, 8
  %more = icmp ult i64 %next, BYTES
  br i1 %more, label %count, label %decide
decide:
  %workers = load i64, ptr getelementptr (%pool, ptr @pool, i64 0, i32 5)
  %enough = icmp ugt i64 %processors, %workers
  %patience = select i1 %enough, i64 SPIN_TICKS, i64 0
  store i64 %patience, ptr getelementptr (%pool, ptr @pool, i64 0, i32 4)
  br label %end
end:
  ret void
}

; all processors but one
define internal void @leave_out(ptr %others, ptr %all, i32 %processor) {
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %others, ptr align 8 %all, i64 BYTES, i1 false)
  %index = lshr i32 %processor, 3
  %byte_at = getelementptr i8, ptr %others, i32 %index
  %byte = load i8, ptr %byte_at
  %low = and i32 %processor, 7
  %shift = trunc i32 %low to i8
  %bit = shl i8 1, %shift
  %kept = xor i8 %bit, 255
  %fewer = and i8 %byte, %kept
  store i8 %fewer, ptr %byte_at
  ret void
}

; confines a thread to all processors that it may use, of which a list is left, but one; where that
; leaves none nothing is done
define internal i1 @send_away(i64 %thread, ptr %all, i32 %processor) {
start:
  %others = alloca [BYTES x i8], align 8
  %inside = icmp ult i32 %processor, BITS
  %known = call i1 @allowed(i64 %thread, ptr %all)
  %possible = and i1 %inside, %known
  br i1 %possible, label %mask, label %end
mask:
  call void @leave_out(ptr %others, ptr %all, i32 %processor)
  %sent = call i1 @confine(i64 %thread, ptr %others)
  br label %end
end:
  %done = phi i1 [ false, %start ], [ %sent, %mask ]
  ret i1 %done
}

; lets this thread use all processors again, unless it has been confined since it was sent away
define internal void @let_back(ptr %all, i32 %processor) {
start:
  %others = alloca [BYTES x i8], align 8
  %now = alloca [BYTES x i8], align 8
  call void @leave_out(ptr %others, ptr %all, i32 %processor)
  %known = call i1 @allowed(i64 0, ptr %now)
  %difference = call i32 @memcmp(ptr %others, ptr %now, i64 BYTES)
  %mine = icmp eq i32 %difference, 0
  br i1 %mine, label %restore, label %end
restore:
  %restored = call i1 @confine(i64 0, ptr %all)
  br label %end
end:
  ret void
}

; moves this thread away from a processor, if there is another
define internal i1 @avoid(i32 %processor) {
start:
  %all = alloca [BYTES x i8], align 8
  %moved = call i1 @send_away(i64 0, ptr %all, i32 %processor)
  br i1 %moved, label %back, label %end
back:
  call void @let_back(ptr %all, i32 %processor)
  br label %end
end:
  ret i1 %moved
}

; sends the workers that sleep on the processor of the launching thread to others: the system may
; wake a worker where it sleeps, and there it gets to run only when the launching thread is stopped.
; The workers of another process, of which this one is a fork that was not told of, are left alone
define internal void @send_rivals_away(i32 %processor) {
start:
  %begun = load atomic i64, ptr getelementptr (%pool, ptr @pool, i64 0, i32 9) seq_cst, align 8
  %few = icmp ult i64 %begun, WORKERS
  %count = select i1 %few, i64 %begun, i64 WORKERS
  %number = add i32 %processor, 1
  br label %next
next:
  %i = phi i64 [ 0, %start ], [ %following, %after ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %look, label %end
look:
  %place_at = getelementptr %pool, ptr @pool, i64 0, i32 10, i64 %i
  %place = load atomic i32, ptr %place_at seq_cst, align 4
  %rival = icmp eq i32 %place, %number
  br i1 %rival, label %mine, label %after
mine:
  %process = load i64, ptr getelementptr (%pool, ptr @pool, i64 0, i32 7)
  %this = call i64 (i64, ...) @syscall(i64 39)
  %own = icmp eq i64 %this, %process
  br i1 %own, label %take, label %end
take:
  %worker_at = getelementptr %pool, ptr @pool, i64 0, i32 11, i64 %i
  %worker = load ptr, ptr %worker_at
  %state_at = getelementptr %worker, ptr %worker, i64 0, i32 2
  %exchange = cmpxchg ptr %state_at, i32 0, i32 BEING_SENT seq_cst seq_cst
  %free = extractvalue { i32, i1 } %exchange, 1
  br i1 %free, label %send, label %after
send:
  %thread_at = getelementptr %worker, ptr %worker, i64 0, i32 1
  %thread = load i64, ptr %thread_at
  %processor_at = getelementptr %worker, ptr %worker, i64 0, i32 3
  store i32 %processor, ptr %processor_at
  %all = getelementptr %worker, ptr %worker, i64 0, i32 4
  %sent = call i1 @send_away(i64 %thread, ptr %all, i32 %processor)
  %state = select i1 %sent, i32 SENT, i32 0
  store atomic i32 %state, ptr %state_at seq_cst, align 4
  br label %after
after:
  %following = add i64 %i, 1
  br label %next
end:
  ret void
}

; where a worker stands in the list of those that sleep on a processor
define internal void @note_place(ptr %worker, i32 %place) {
start:
  %number = load i64, ptr %worker
  %inside = icmp ult i64 %number, WORKERS
  br i1 %inside, label %note, label %end
note:
  %place_at = getelementptr %pool, ptr @pool, i64 0, i32 10, i64 %number
  store atomic i32 %place, ptr %place_at seq_cst, align 4
  br label %end
end:
  ret void
}

; gives a worker that was sent away the processor back, then goes along with the process: in the
; other order a worker would leave the processors of a process that was confined to just those to
; which the worker was sent. Waits while a launching thread is about to send the worker away
define internal void @settle(ptr %worker, ptr %known) {
start:
  %state_at = getelementptr %worker, ptr %worker, i64 0, i32 2
  br label %look
look:
  %state = load atomic i32, ptr %state_at seq_cst, align 4
  switch i32 %state, label %end [
    i32 BEING_SENT, label %spin
    i32 SENT, label %back
  ]
spin:
  call void @llvm.x86.sse2.pause()
  br label %look
back:
  %processor_at = getelementptr %worker, ptr %worker, i64 0, i32 3
  %processor = load i32, ptr %processor_at
  %all = getelementptr %worker, ptr %worker, i64 0, i32 4
  call void @let_back(ptr %all, i32 %processor)
  store atomic i32 0, ptr %state_at seq_cst, align 4
  br label %end
end:
  call void @follow(ptr %known)
  ret void
}

; enters a worker in the lists of the pool. A thread begins on the processors of the thread that has
; started it, which may be confined to fewer than the process is
define internal void @begin(ptr %worker, ptr %known) {
start:
  %confined = call i1 @confine(i64 0, ptr %known)
  %number = atomicrmw add ptr getelementptr (%pool, ptr @pool, i64 0, i32 9), i64 1 seq_cst
  store i64 %number, ptr %worker
  %thread = call i64 (i64, ...) @syscall(i64 186)
  %thread_at = getelementptr %worker, ptr %worker, i64 0, i32 1
  store i64 %thread, ptr %thread_at
  %state_at = getelementptr %worker, ptr %worker, i64 0, i32 2
  store atomic i32 0, ptr %state_at seq_cst, align 4
  %inside = icmp ult i64 %number, WORKERS
  br i1 %inside, label %enter, label %end
enter:
  %worker_at = getelementptr %pool, ptr @pool, i64 0, i32 11, i64 %number
  store ptr %worker, ptr %worker_at
  br label %end
end:
  ret void
}

; runs parts as long as there are any left, and says whether there were
define internal i1 @help(ptr %slot) {
start:
  %parts_at = getelementptr %slot, ptr %slot, i64 0, i32 1, i32 4
  %modes = getelementptr %slot, ptr %slot, i64 0, i32 2
  %done = getelementptr %slot, ptr %slot, i64 0, i32 5
  %waiting_at = getelementptr %slot, ptr %slot, i64 0, i32 6
  br label %look
look:
  %helped = phi i1 [ false, %start ], [ %helped, %take ], [ true, %part ], [ true, %call ]
  %left = load atomic i64, ptr %slot seq_cst, align 8
  %none = icmp eq i64 %left, 0
  br i1 %none, label %end, label %take
take:
  %fewer = sub i64 %left, 1
  %exchange = cmpxchg ptr %slot, i64 %left, i64 %fewer seq_cst seq_cst
  %taken = extractvalue { i64, i1 } %exchange, 1
  br i1 %taken, label %part, label %look
part:
  call void @llvm.x86.sse.ldmxcsr(ptr %modes)
  %parts = load i64, ptr %parts_at
  %number = sub i64 %parts, %left
  call void @run(ptr %slot, i64 %number)
  %before = atomicrmw add ptr %done, i32 1 seq_cst
  %waiting = load atomic i32, ptr %waiting_at seq_cst, align 4
  %awake = icmp eq i32 %waiting, 0
  br i1 %awake, label %look, label %call
call:
  call void @wake(ptr %done, i32 1)
  br label %look
end:
  ret i1 %helped
}

define internal i1 @help_all() {
start:
  br label %next
next:
  %index = phi i64 [ 0, %start ], [ %following, %next ]
  %before = phi i1 [ false, %start ], [ %helped, %next ]
  %slot = getelementptr %pool, ptr @pool, i64 0, i32 0, i64 %index
  %now = call i1 @help(ptr %slot)
  %helped = or i1 %before, %now
  %following = add i64 %index, 1
  %last = icmp eq i64 %following, SLOTS
  br i1 %last, label %end, label %next
end:
  ret i1 %helped
}

; a thread of the pool, which never ends; where it has been put on the processor of the launching
; thread it moves to another before it runs parts, or, where it may not, does not spin but naps for
; 100 us, in which short launches need not wake it
define ptr @work(ptr %unused) {
start:
  %asleep = getelementptr %pool, ptr @pool, i64 0, i32 1
  %signal = getelementptr %pool, ptr @pool, i64 0, i32 2
  %processor_at = getelementptr %pool, ptr @pool, i64 0, i32 0, i64 0, i32 3
  %known = alloca [BYTES x i8], align 8
  %before = getelementptr %pool, ptr @pool, i64 0, i32 8
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %known, ptr align 8 %before, i64 BYTES, i1 false)
  %worker = alloca %worker, align 8
  call void @begin(ptr %worker, ptr %known)
  br label %fresh
fresh:
  %began = call i64 @llvm.readcyclecounter()
  br label %look
look:
  %helped = call i1 @help_all()
  br i1 %helped, label %place, label %wait
place:
  call void @settle(ptr %worker, ptr %known)
  %here = call i32 @sched_getcpu()
  %there = load atomic i32, ptr %processor_at monotonic, align 4
  %rival = icmp eq i32 %here, %there
  br i1 %rival, label %move, label %fresh
move:
  %moved = call i1 @avoid(i32 %there)
  br i1 %moved, label %fresh, label %nap
nap:
  %current = load atomic i32, ptr %signal seq_cst, align 4
  call void @futex(ptr %signal, i64 128, i32 %current, ptr @short)
  call void @settle(ptr %worker, ptr %known)
  %needed = call i1 @help_all()
  br i1 %needed, label %place, label %tire
wait:
  %over = call i1 @impatient(i64 %began)
  br i1 %over, label %tire, label %look
tire:
  %bed = call i32 @sched_getcpu()
  %spot = add i32 %bed, 1
  call void @note_place(ptr %worker, i32 %spot)
  %more = atomicrmw add ptr %asleep, i32 1 seq_cst
  %seen = load atomic i32, ptr %signal seq_cst, align 4
  %late = call i1 @help_all()
  br i1 %late, label %rise, label %rest
rest:
  call void @sleep(ptr %signal, i32 %seen)
  br label %rise
rise:
  %fewer = atomicrmw sub ptr %asleep, i32 1 seq_cst
  call void @note_place(ptr %worker, i32 0)
  br label %place
}

define internal void @wake_some(i64 %index, i64 %parts, i32 %asleep, i32 %processor) {
start:
  %signal = getelementptr %pool, ptr @pool, i64 0, i32 2
  %all = load i64, ptr getelementptr (%pool, ptr @pool, i64 0, i32 5)
  %asleep_wide = zext i32 %asleep to i64
  %spinning = sub i64 %all, %asleep_wide
  %alone = icmp eq i64 %index, 0
  %ready = select i1 %alone, i64 %spinning, i64 0
  %others = sub i64 %parts, 1
  %missing = sub i64 %others, %ready
  %any = icmp sgt i64 %missing, 0
  br i1 %any, label %call, label %end
call:
  call void @send_rivals_away(i32 %processor)
  %before = atomicrmw add ptr %signal, i32 1 seq_cst
  %most = trunc i64 %missing to i32
  call void @wake(ptr %signal, i32 %most)
  br label %end
end:
  ret void
}

; returns when all parts are done
define internal void @wait(ptr %slot, i64 %parts) {
start:
  %done = getelementptr %slot, ptr %slot, i64 0, i32 5
  %waiting = getelementptr %slot, ptr %slot, i64 0, i32 6
  %all = trunc i64 %parts to i32
  %began = call i64 @llvm.readcyclecounter()
  br label %look
look:
  %seen = load atomic i32, ptr %done seq_cst, align 4
  %ready = icmp eq i32 %seen, %all
  br i1 %ready, label %end, label %spin
spin:
  %over = call i1 @impatient(i64 %began)
  br i1 %over, label %tire, label %look
tire:
  store atomic i32 1, ptr %waiting seq_cst, align 4
  br label %check
check:
  %still = load atomic i32, ptr %done seq_cst, align 4
  %late = icmp eq i32 %still, %all
  br i1 %late, label %rise, label %rest
rest:
  call void @sleep(ptr %done, i32 %still)
  br label %check
rise:
  store atomic i32 0, ptr %waiting seq_cst, align 4
  br label %end
end:
  ret void
}

; makes the system calls of this text, and returns 0 where all are allowed
define i32 @attempt(ptr %unused) {
start:
  %word = alloca i32
  %processors = alloca [BYTES x i8], align 8
  store i32 0, ptr %word
  %woken = call i64 (i64, ...) @syscall(i64 202, ptr %word, i64 129, i64 1, ptr null)
  %wakes = icmp eq i64 %woken, 0
  %known = call i1 @allowed(i64 0, ptr %processors)
  %confined = call i1 @confine(i64 0, ptr %processors)
  %moves = and i1 %known, %confined
  %all = and i1 %wakes, %moves
  %status = select i1 %all, i32 0, i32 1
  ret i32 %status
}

; whether a launch takes less time than one thread, which takes `work` ticks. It is worth it to wake
; workers for a little work, too, where launches follow each other while awake workers spin
define internal i1 @pays(i64 %work, i64 %parts) {
start:
  %always = icmp uge i64 %work, ALWAYS
  br i1 %always, label %end, label %estimate
estimate:
  %own = udiv i64 %work, %parts
  %saved = sub i64 %work, %own
  %spinning = load i64, ptr getelementptr (%pool, ptr @pool, i64 0, i32 13)
  %some = icmp uge i64 %saved, %spinning
  br i1 %some, label %count, label %end
count:
  %asleep = load atomic i32, ptr getelementptr (%pool, ptr @pool, i64 0, i32 1) seq_cst, align 4
  %awake = icmp eq i32 %asleep, 0
  %waking = load i64, ptr getelementptr (%pool, ptr @pool, i64 0, i32 12)
  %much = icmp uge i64 %saved, %waking
  %surely = or i1 %awake, %much
  br i1 %surely, label %end, label %doubt
doubt:
  %now = call i64 @llvm.readcyclecounter()
  %last_at = getelementptr %pool, ptr @pool, i64 0, i32 14
  %last = atomicrmw xchg ptr %last_at, i64 %now seq_cst
  %passed = sub i64 %now, %last
  %patience = load i64, ptr getelementptr (%pool, ptr @pool, i64 0, i32 4)
  %spins = icmp ne i64 %patience, 0
  %lasting = add i64 %patience, %work
  %soon = icmp ult i64 %passed, %lasting
  %often = and i1 %spins, %soon
  br label %end
end:
  %pays = phi i1 [ true, %start ], [ false, %estimate ], [ true, %count ], [ %often, %doubt ]
  ret i1 %pays
}

; a part that waits until all have begun, or for long enough
define internal void @meet(i64 %counter, i64 %record, i64 %number, i64 %parts) {
start:
  %count = inttoptr i64 %counter to ptr
  %before = atomicrmw add ptr %count, i64 1 seq_cst
  %began = call i64 @llvm.readcyclecounter()
  br label %look
look:
  %begun = load atomic i64, ptr %count seq_cst, align 8
  %all = icmp uge i64 %begun, %parts
  br i1 %all, label %end, label %spin
spin:
  call void @llvm.x86.sse2.pause()
  %now = call i64 @llvm.readcyclecounter()
  %passed = sub i64 %now, %began
  %over = icmp uge i64 %passed, SPIN_TICKS
  br i1 %over, label %end, label %look
end:
  ret void
}

; the ticks of a launch whose parts wait for each other
define i64 @measure(i64 %parts) {
  %count = alloca i64
  store i64 0, ptr %count
  %counter = ptrtoint ptr %count to i64
  %began = call i64 @llvm.readcyclecounter()
  %ran = call i64 @launch(ptr @meet, i64 %counter, i64 0, i64 0, i64 %parts, i64 -1)
  %now = call i64 @llvm.readcyclecounter()
  %ticks = sub i64 %now, %began
  ret i64 %ticks
}

define i64 @launch(ptr %region, i64 %arguments, i64 %failures, i64 %width, i64 %parts,
                   i64 %work) {
start:
  %pays = call i1 @pays(i64 %work, i64 %parts)
  br i1 %pays, label %look, label %busy
look:
  %index = phi i64 [ 0, %start ], [ %following, %next ]
  %slot = getelementptr %pool, ptr @pool, i64 0, i32 0, i64 %index
  %taken = getelementptr %slot, ptr %slot, i64 0, i32 7
  %exchange = cmpxchg ptr %taken, i32 0, i32 1 seq_cst seq_cst
  %free = extractvalue { i32, i1 } %exchange, 1
  br i1 %free, label %publish, label %next
next:
  %following = add i64 %index, 1
  %last = icmp eq i64 %following, SLOTS
  br i1 %last, label %busy, label %look
busy:
  ret i64 0
publish:
  %modes = getelementptr %slot, ptr %slot, i64 0, i32 2
  %done = getelementptr %slot, ptr %slot, i64 0, i32 5
  %call0 = insertvalue %call poison, ptr %region, 0
  %call1 = insertvalue %call %call0, i64 %arguments, 1
  %call2 = insertvalue %call %call1, i64 %failures, 2
  %call3 = insertvalue %call %call2, i64 %width, 3
  %call4 = insertvalue %call %call3, i64 %parts, 4
  %call_at = getelementptr %slot, ptr %slot, i64 0, i32 1
  store %call %call4, ptr %call_at
  call void @llvm.x86.sse.stmxcsr(ptr %modes)
  %processor = call i32 @sched_getcpu()
  %processor_at = getelementptr %slot, ptr %slot, i64 0, i32 3
  store atomic i32 %processor, ptr %processor_at monotonic, align 4
  store atomic i32 1, ptr %done seq_cst, align 4
  %others = sub i64 %parts, 1
  store atomic i64 %others, ptr %slot seq_cst, align 8
  %asleep_at = getelementptr %pool, ptr @pool, i64 0, i32 1
  %asleep = load atomic i32, ptr %asleep_at seq_cst, align 4
  %awake = icmp eq i32 %asleep, 0
  br i1 %awake, label %share, label %call
call:
  call void @wake_some(i64 %index, i64 %parts, i32 %asleep, i32 %processor)
  br label %share
share:
  call void @run(ptr %slot, i64 0)
  %helped = call i1 @help(ptr %slot)
  call void @wait(ptr %slot, i64 %parts)
  store atomic i32 0, ptr %taken seq_cst, align 4
  ret i64 1
}
"""

RUN_REGIONS = """
; Runs `count` regions one after the other, each a pair of its address and the ticks that a thread
; takes, 0 where it has no parts to be shared by `launch`, unless that is null. Stops after one that
; has recorded a failure, and says whether there was one.
define i64 @perform(ptr %regions, i64 %count, i64 %arguments, i64 %failures, i64 %width,
                    i64 %parts, ptr %launch) {
start:
  %threads = icmp ne ptr %launch, null
  %checked = icmp ne i64 %width, 0
  br label %next
next:
  %i = phi i64 [ 0, %start ], [ %following, %good ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %begin, label %well
begin:
  %step_at = getelementptr { ptr, i64 }, ptr %regions, i64 %i
  %step = load { ptr, i64 }, ptr %step_at
  %region = extractvalue { ptr, i64 } %step, 0
  %shared = extractvalue { ptr, i64 } %step, 1
  %fit = icmp ne i64 %shared, 0
  %several = and i1 %fit, %threads
  br i1 %several, label %share, label %alone
share:
  %ran = call i64 %launch(ptr %region, i64 %arguments, i64 %failures, i64 %width, i64 %parts,
                          i64 %shared)
  %served = icmp ne i64 %ran, 0
  br i1 %served, label %after, label %alone
alone:
  call void %region(i64 %arguments, i64 %failures, i64 0, i64 1)
  br label %after
after:
  br i1 %checked, label %record, label %good
record:
  %part = phi i64 [ 0, %after ], [ %another, %fine ]
  %left = icmp slt i64 %part, %parts
  br i1 %left, label %look, label %good
look:
  %offset = mul i64 %part, %width
  %place = add i64 %failures, %offset
  %word_at = inttoptr i64 %place to ptr
  %word = load i64, ptr %word_at
  %fails = icmp ne i64 %word, 0
  br i1 %fails, label %badly, label %fine
fine:
  %another = add i64 %part, 1
  br label %record
good:
  %following = add i64 %i, 1
  br label %next
well:
  ret i64 0
badly:
  ret i64 1
}
"""
