"""The entries of the counter catalogue: every quantity that Berth measures or imports.

Data only; :mod:`berth.pilot.catalogue` looks them up and documents them. A source's value is
what that source calls the quantity, and for ``perf:*`` a formula that the collector evaluates:
events joined by `` + ``, each with an optional weight (``4*r10c7``). ``rNNNN`` is a raw event
code, umask before event, from the vendors' public event lists (Intel SDM volume 3 and
perfmon; AMD PPR for family 17h/19h; Arm ARM chapter D; Power ISA user's guides).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

TABLE_I = "I"
TABLE_II = "II"


@dataclass(frozen=True, slots=True)
class Counter:
    """A measured quantity: its name, unit and definition, and where its value can come from.

    ``tables`` names the rows of the papers' tables that it stands for: Table I of "Predicting
    Cross-Platform Relative Performance with Deep Generative Models" and Table II of xAMM.
    """

    name: str
    unit: str
    definition: str
    group: str
    tables: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)


INTEL, AMD, ARM, POWER = "perf:intel", "perf:amd", "perf:arm", "perf:power"


def _everywhere(event: str) -> dict[str, str]:
    """Return the same kernel-generic event on every processor family."""
    return dict.fromkeys((INTEL, AMD, ARM, POWER), event)


COUNTERS: tuple[Counter, ...] = (
    # --- instructions -----------------------------------------------------------------------
    Counter(
        "instructions",
        "count",
        "Instructions executed in user mode, all threads and processes. A repeated string "
        "instruction counts as one for each 32 bytes (cachegrind and lackey: for each iteration). "
        "From ncu: one a warp.",
        "control",
        {TABLE_I: "# Instructions"},
        {
            **_everywhere("instructions"),
            "emulator": "executions",
            "callgrind": "Ir",
            "cachegrind": "Ir",
            "lackey": "guest instrs",
            "papi": "PAPI_TOT_INS",
            "ncu": "smsp__inst_executed.sum",
            "perf": "instructions",
            "likwid": "INSTR_RETIRED_ANY | RETIRED_INSTRUCTIONS | INST_RETIRED",
        },
    ),
    Counter(
        "cycles",
        "count",
        "Core clock cycles in user mode.",
        "control",
        {},
        {
            **_everywhere("cycles"),
            "papi": "PAPI_TOT_CYC",
            "ncu": "sm__cycles_elapsed.max",
            "perf": "cycles | cpu-cycles",
            "likwid": "CPU_CLK_UNHALTED_CORE | CPU_CLOCKS_UNHALTED | CPU_CYCLES",
        },
    ),
    Counter(
        "int_ops",
        "count",
        "Integer arithmetic, logic, shift, compare and address (lea) instructions, scalar and "
        "vector. From lackey: integer ALU operations of valgrind's intermediate code, several an "
        "instruction.",
        "compute",
        {},
        {
            ARM: "r73 + r74",
            "emulator": "instructions of the integer classes",
            "callgrind": "instructions of the integer classes",
            "lackey": "AluOps I8 + I16 + I32 + I64 + I128",
            "papi": "PAPI_INT_INS",
            "ncu": "smsp__sass_thread_inst_executed_op_integer_pred_on.sum",
        },
    ),
    Counter(
        "fp32_ops",
        "flop",
        "Single-precision floating-point operations: each lane of a vector counts one, a fused "
        "multiply-add two.",
        "compute",
        {},
        {
            INTEL: "r02c7 + 4*r08c7 + 8*r20c7 + 16*r80c7",
            "emulator": "single-precision instructions times lanes",
            "callgrind": "single-precision instructions times lanes",
            "papi": "PAPI_SP_OPS",
            "perf": (
                "fp_arith_inst_retired.scalar_single + "
                "4*fp_arith_inst_retired.128b_packed_single + "
                "8*fp_arith_inst_retired.256b_packed_single + "
                "16*fp_arith_inst_retired.512b_packed_single | "
                "fp_arith_inst_retired.scalar_single + "
                "4*fp_arith_inst_retired.128b_packed_single + "
                "8*fp_arith_inst_retired.256b_packed_single"
            ),
            "likwid": (
                "FP_ARITH_INST_RETIRED_SCALAR_SINGLE + "
                "4*FP_ARITH_INST_RETIRED_128B_PACKED_SINGLE + "
                "8*FP_ARITH_INST_RETIRED_256B_PACKED_SINGLE + "
                "16*FP_ARITH_INST_RETIRED_512B_PACKED_SINGLE | "
                "FP_ARITH_INST_RETIRED_SCALAR_SINGLE + "
                "4*FP_ARITH_INST_RETIRED_128B_PACKED_SINGLE + "
                "8*FP_ARITH_INST_RETIRED_256B_PACKED_SINGLE"
            ),
            "ncu": (
                "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum + "
                "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum + "
                "2*smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
            ),
        },
    ),
    Counter(
        "fp64_ops",
        "flop",
        "Double-precision floating-point operations: each lane of a vector counts one, a fused "
        "multiply-add two.",
        "compute",
        {},
        {
            INTEL: "r01c7 + 2*r04c7 + 4*r10c7 + 8*r40c7",
            "emulator": "double-precision instructions times lanes",
            "callgrind": "double-precision instructions times lanes",
            "papi": "PAPI_DP_OPS",
            "perf": (
                "fp_arith_inst_retired.scalar_double + "
                "2*fp_arith_inst_retired.128b_packed_double + "
                "4*fp_arith_inst_retired.256b_packed_double + "
                "8*fp_arith_inst_retired.512b_packed_double | "
                "fp_arith_inst_retired.scalar_double + "
                "2*fp_arith_inst_retired.128b_packed_double + "
                "4*fp_arith_inst_retired.256b_packed_double"
            ),
            "likwid": (
                "FP_ARITH_INST_RETIRED_SCALAR_DOUBLE + "
                "2*FP_ARITH_INST_RETIRED_128B_PACKED_DOUBLE + "
                "4*FP_ARITH_INST_RETIRED_256B_PACKED_DOUBLE + "
                "8*FP_ARITH_INST_RETIRED_512B_PACKED_DOUBLE | "
                "FP_ARITH_INST_RETIRED_SCALAR_DOUBLE + "
                "2*FP_ARITH_INST_RETIRED_128B_PACKED_DOUBLE + "
                "4*FP_ARITH_INST_RETIRED_256B_PACKED_DOUBLE"
            ),
            "ncu": (
                "smsp__sass_thread_inst_executed_op_dadd_pred_on.sum + "
                "smsp__sass_thread_inst_executed_op_dmul_pred_on.sum + "
                "2*smsp__sass_thread_inst_executed_op_dfma_pred_on.sum"
            ),
        },
    ),
    Counter(
        "fp_ops",
        "flop",
        "Floating-point operations of both precisions. On AMD the hardware counts only this sum. "
        "From lackey: F32 and F64 ALU operations, which leave out most vector code.",
        "compute",
        {},
        {
            AMD: "r0f03",
            "lackey": "AluOps F32 + F64",
            "derived": "fp32_ops + fp64_ops",
            "papi": "PAPI_FP_OPS",
            "likwid": "RETIRED_SSE_AVX_FLOPS_ALL",
            "rajaperf": "Flops/Rep*Reps",
        },
    ),
    Counter(
        "fp32_instructions",
        "count",
        "Single-precision floating-point arithmetic instructions, scalar or vector.",
        "compute",
        {},
        {
            INTEL: "r02c7 + r08c7 + r20c7 + r80c7",
            "emulator": "instructions of the single-precision classes",
            "callgrind": "instructions of the single-precision classes",
        },
    ),
    Counter(
        "fp64_instructions",
        "count",
        "Double-precision floating-point arithmetic instructions, scalar or vector.",
        "compute",
        {},
        {
            INTEL: "r01c7 + r04c7 + r10c7 + r40c7",
            "emulator": "instructions of the double-precision classes",
            "callgrind": "instructions of the double-precision classes",
        },
    ),
    Counter(
        "vector_instructions",
        "count",
        "Arithmetic instructions on packed vectors, integer or floating-point. From lackey: V128 "
        "and V256 ALU operations, which hold scalar SSE arithmetic too.",
        "compute",
        {},
        {
            INTEL: "r04c7 + r08c7 + r10c7 + r20c7 + r40c7 + r80c7",
            ARM: "r74",
            "emulator": "packed instructions",
            "callgrind": "packed instructions",
            "lackey": "AluOps V128 + V256",
            "papi": "PAPI_VEC_INS",
        },
    ),
    Counter(
        "control_instructions",
        "count",
        "Jumps, conditional or not, calls and returns.",
        "control",
        {},
        {
            **_everywhere("branches"),
            "emulator": "jumps, calls and returns",
            "callgrind": "jumps, calls and returns",
            "perf": "branches | branch-instructions",
        },
    ),
    Counter(
        "branches",
        "count",
        "Branches with more than one way to go: conditional jumps and indirect jumps and calls. "
        "From the hardware: all retired branch instructions.",
        "control",
        {},
        {
            **_everywhere("branches"),
            "emulator": "conditional and indirect jumps",
            "callgrind": "Bc + Bi",
            "cachegrind": "Bc + Bi",
            "lackey": "Jccs total",
            "papi": "PAPI_BR_INS",
            "perf": "branches | branch-instructions",
            "likwid": ("BR_INST_RETIRED_ALL_BRANCHES | RETIRED_BRANCH_INSTR"),
        },
    ),
    Counter(
        "branches_taken",
        "count",
        "Conditional jumps that were taken.",
        "control",
        {},
        {"emulator": "conditional jumps taken", "lackey": "Jccs taken", "papi": "PAPI_BR_TKN"},
    ),
    Counter(
        "branch_misses",
        "count",
        "Mispredicted branches.",
        "control",
        {},
        {
            **_everywhere("branch-misses"),
            "emulator": "mispredicted of these",
            "callgrind": "Bcm + Bim",
            "cachegrind": "Bcm + Bim",
            "papi": "PAPI_BR_MSP",
            "perf": "branch-misses",
            "likwid": ("BR_MISP_RETIRED_ALL_BRANCHES | RETIRED_MISP_BRANCH_INSTR"),
        },
    ),
    Counter(
        "atomic_ops",
        "count",
        "Atomic read-modify-write instructions (lock prefix, xchg with memory).",
        "parallel",
        {},
        {
            INTEL: "r21d0",
            "emulator": "locked instructions",
            "callgrind": "locked instructions",
            "ncu": "smsp__inst_executed_op_global_atom.sum + smsp__inst_executed_op_global_red.sum",
        },
    ),
    Counter(
        "parallel_regions",
        "count",
        "OpenMP parallel regions that the program started: kernels of an equivalent GPU build.",
        "parallel",
        {},
        {
            "emulator": "executions of GOMP_parallel* and __kmpc_fork_call",
            "callgrind": "calls of GOMP_parallel* and __kmpc_fork_call",
        },
    ),
    Counter(
        "independent_instruction_ratio",
        "ratio",
        "Instructions that do not depend on a preceding instruction still in flight, to all "
        "instructions.",
        "control",
        {TABLE_I: "Ratio Indep. Instr. to Total Instr."},
        {"imported": "a trace analysis (for example MICA or Oclgrind's ILP)"},
    ),
    # --- memory -----------------------------------------------------------------------------
    Counter(
        "loads",
        "count",
        "Data reads from memory by instructions, one an operand. Cachegrind and lackey split some "
        "vector operands and count their lanes.",
        "memory",
        {},
        {
            INTEL: "r81d0",
            AMD: "r0129",
            ARM: "r70",
            POWER: "L1-dcache-loads",
            "emulator": "memory operands read",
            "callgrind": "memory operands read",
            "cachegrind": "Dr",
            "lackey": "Loads, all types",
            "papi": "PAPI_LD_INS",
            "ncu": "smsp__inst_executed_op_global_ld.sum",
            "perf": "L1-dcache-loads | mem_inst_retired.all_loads",
            "likwid": (
                "MEM_INST_RETIRED_ALL_LOADS | MEM_UOPS_RETIRED_LOADS_ALL | "
                "MEM_UOPS_RETIRED_LOADS | LS_DISPATCH_LOADS + LS_DISPATCH_LOAD_OP_STORES"
            ),
        },
    ),
    Counter(
        "stores",
        "count",
        "Data writes to memory by instructions.",
        "memory",
        {},
        {
            INTEL: "r82d0",
            AMD: "r0229",
            ARM: "r71",
            POWER: "L1-dcache-stores",
            "emulator": "memory operands written",
            "callgrind": "memory operands written",
            "cachegrind": "Dw",
            "lackey": "Stores, all types",
            "papi": "PAPI_SR_INS",
            "ncu": "smsp__inst_executed_op_global_st.sum",
            "perf": "L1-dcache-stores | mem_inst_retired.all_stores",
            "likwid": (
                "MEM_INST_RETIRED_ALL_STORES | MEM_UOPS_RETIRED_STORES_ALL | "
                "MEM_UOPS_RETIRED_STORES | LS_DISPATCH_STORES + LS_DISPATCH_LOAD_OP_STORES"
            ),
        },
    ),
    Counter(
        "load_bytes",
        "byte",
        "Bytes read by load instructions, before any cache.",
        "memory",
        {},
        {"emulator": "executions times bytes", "lackey": "Loads of each type times its width"},
    ),
    Counter(
        "store_bytes",
        "byte",
        "Bytes written by store instructions, before any cache.",
        "memory",
        {},
        {"emulator": "executions times bytes", "lackey": "Stores of each type times its width"},
    ),
    Counter(
        "l1_load_misses",
        "count",
        "Data reads that miss the first-level data cache (emulated: 32 KiB, 8 ways, 64 B lines).",
        "memory",
        {TABLE_II: "L1 Load Misses"},
        {
            **_everywhere("L1-dcache-load-misses"),
            "emulator": "reads that miss",
            "callgrind": "D1mr",
            "cachegrind": "D1mr",
            "papi": "PAPI_L1_LDM",
            "likwid": "L1D_REPLACEMENT",
            "perf": "L1-dcache-load-misses | mem_load_retired.l1_miss",
        },
    ),
    Counter(
        "l1_store_misses",
        "count",
        "Data writes that miss the first-level data cache. On Intel: requests for ownership that "
        "reach the second level.",
        "memory",
        {TABLE_II: "L1 Store Misses"},
        {
            INTEL: "re224",
            "emulator": "writes that miss",
            "callgrind": "D1mw",
            "cachegrind": "D1mw",
            "papi": "PAPI_L1_STM",
        },
    ),
    Counter(
        "l2_load_misses",
        "count",
        "Data reads that miss the second-level cache (emulated: 1 MiB, 16 ways, after the first).",
        "memory",
        {TABLE_II: "L2 Load Misses"},
        {
            INTEL: "r2124",
            AMD: "r0864",
            ARM: "r17",
            "emulator": "reads that miss 1 MiB",
            "cachegrind": "DLmr with LL = 1 MiB",
            "papi": "PAPI_L2_LDM",
            "perf": "mem_load_retired.l2_miss",
        },
    ),
    Counter(
        "l2_store_misses",
        "count",
        "Data writes that miss the second-level cache.",
        "memory",
        {TABLE_II: "L2 Store Misses"},
        {
            INTEL: "r2224",
            "emulator": "writes that miss 1 MiB",
            "cachegrind": "DLmw with LL = 1 MiB",
            "papi": "PAPI_L2_STM",
        },
    ),
    Counter(
        "llc_load_misses",
        "count",
        "Data reads that miss the last-level cache (emulated: 32 MiB, 16 ways, after the first).",
        "memory",
        {},
        {
            INTEL: "LLC-load-misses",
            ARM: "r37",
            POWER: "LLC-load-misses",
            "emulator": "reads that miss 32 MiB",
            "callgrind": "DLmr with LL = 32 MiB",
            "cachegrind": "DLmr with LL = 32 MiB",
            "papi": "PAPI_L3_LDM",
            "perf": "LLC-load-misses | mem_load_retired.l3_miss",
            "likwid": ("MEM_LOAD_RETIRED_L3_MISS | MEM_LOAD_UOPS_RETIRED_L3_MISS"),
        },
    ),
    Counter(
        "llc_store_misses",
        "count",
        "Data writes that miss the last-level cache.",
        "memory",
        {},
        {
            INTEL: "LLC-store-misses",
            POWER: "LLC-store-misses",
            "emulator": "writes that miss 32 MiB",
            "callgrind": "DLmw with LL = 32 MiB",
            "cachegrind": "DLmw with LL = 32 MiB",
            "papi": "PAPI_L3_STM",
            "perf": "LLC-store-misses",
        },
    ),
    Counter(
        "l1_instruction_misses",
        "count",
        "Instruction fetches that miss the first-level instruction cache.",
        "memory",
        {},
        {
            **_everywhere("L1-icache-load-misses"),
            "emulator": "fetches that miss",
            "callgrind": "I1mr",
            "cachegrind": "I1mr",
            "papi": "PAPI_L1_ICM",
            "perf": "L1-icache-load-misses",
        },
    ),
    Counter(
        "dram_bytes",
        "byte",
        "Estimated traffic to main memory: 64 bytes for each last-level read miss, and 128 for "
        "each write miss (the line is fetched, then written back). "
        "From likwid and ncu: what the memory controllers moved.",
        "memory",
        {},
        {
            "derived": "64 llc_load_misses + 128 llc_store_misses",
            "likwid": ("64*CAS_COUNT_RD + 64*CAS_COUNT_WR | 1e9*Memory data volume [GBytes]"),
            "ncu": (
                "dram__bytes.sum | dram__bytes_read.sum + dram__bytes_write.sum | "
                "dram__bytes_op_read.sum + dram__bytes_op_write.sum"
            ),
        },
    ),
    Counter(
        "memory_stall_cycles",
        "count",
        "Cycles in which execution waited for memory. On Arm: all back-end stalls.",
        "memory",
        {TABLE_II: "Memory Stall"},
        {
            INTEL: "r140014a3",
            ARM: "r24",
            POWER: "stalled-cycles-backend",
            "papi": "PAPI_MEM_SCY",
            "perf": "cycle_activity.stalls_mem_any",
            "likwid": "CYCLE_ACTIVITY_STALLS_LDM_PENDING",
        },
    ),
    Counter(
        "page_table_bytes",
        "byte",
        "Largest size of the page tables of the process tree, sampled.",
        "memory",
        {TABLE_II: "Extended Page Table"},
        {"proc": "/proc/PID/status VmPTE, summed over the tree"},
    ),
    Counter(
        "page_table_levels",
        "count",
        "Levels of the page table that the kernel uses.",
        "memory",
        {TABLE_I: "# Page Levels"},
        {"proc": "5 where /proc/cpuinfo lists la57, else 4 on x86-64"},
    ),
    Counter(
        "page_faults",
        "count",
        "Page faults, minor and major.",
        "memory",
        {TABLE_I: "# Page Faults"},
        {
            "proc": "ru_minflt + ru_majflt",
            "perf": "page-faults | faults | minor-faults + major-faults",
        },
    ),
    Counter(
        "page_faults_major",
        "count",
        "Page faults that had to read storage.",
        "memory",
        {},
        {
            "proc": "ru_majflt",
            "perf": "major-faults",
        },
    ),
    Counter(
        "cgroup_memory_peak_bytes",
        "byte",
        "Largest memory charged to the program's control group, page cache and kernel memory "
        "included: what a scheduler's memory limit counts.",
        "memory",
        {},
        {"cgroup": "memory.peak"},
    ),
    # --- input and output ---------------------------------------------------------------------
    Counter(
        "io_bytes_read",
        "byte",
        "Bytes that read-like system calls returned: files, pipes and sockets, cached or not.",
        "io",
        {TABLE_I: "IO Bytes Read/Written", TABLE_II: "I/O Bytes Read"},
        {"proc": "/proc/PID/io rchar"},
    ),
    Counter(
        "io_bytes_written",
        "byte",
        "Bytes that write-like system calls took.",
        "io",
        {TABLE_I: "IO Bytes Read/Written", TABLE_II: "I/O Bytes Written"},
        {"proc": "/proc/PID/io wchar"},
    ),
    Counter(
        "storage_bytes_read",
        "byte",
        "Bytes fetched from the storage layer (0 when the page cache had them; some network file "
        "systems do not account here).",
        "io",
        {},
        {"proc": "/proc/PID/io read_bytes", "cgroup": "io.stat rbytes"},
    ),
    Counter(
        "storage_bytes_written",
        "byte",
        "Bytes sent to the storage layer.",
        "io",
        {},
        {"proc": "/proc/PID/io write_bytes", "cgroup": "io.stat wbytes"},
    ),
    Counter(
        "read_calls", "count", "Read-like system calls.", "io", {}, {"proc": "/proc/PID/io syscr"}
    ),
    Counter(
        "write_calls", "count", "Write-like system calls.", "io", {}, {"proc": "/proc/PID/io syscw"}
    ),
    Counter(
        "files_opened",
        "count",
        "Largest number of file descriptors that the tree held open at once, sampled, standard "
        "streams included.",
        "io",
        {TABLE_I: "IO File Descriptors Opened"},
        {"proc": "entries of /proc/PID/fd, summed over the tree"},
    ),
    # --- parallelism and time -----------------------------------------------------------------
    Counter(
        "threads",
        "count",
        "Largest number of threads that one process of the tree had, sampled.",
        "parallel",
        {TABLE_I: "# Threads / Streams"},
        {"proc": "/proc/PID/status Threads"},
    ),
    Counter(
        "processes",
        "count",
        "Largest number of processes at once, sampled.",
        "parallel",
        {},
        {"proc": "processes of the tree"},
    ),
    Counter(
        "gpu_streams",
        "count",
        "CUDA or HIP streams that the program used.",
        "gpu",
        {TABLE_I: "# Threads / Streams"},
        {"nsys": "distinct streamId of the kernel trace"},
    ),
    Counter(
        "cpu_time_s",
        "second",
        "Processor time of all threads and processes, user and system.",
        "parallel",
        {},
        {
            "proc": "ru_utime + ru_stime",
            "cgroup": "cpu.stat usage_usec",
            "perf": "task-clock | user_time + system_time",
        },
    ),
    Counter(
        "cpu_system_s",
        "second",
        "Processor time spent in the kernel.",
        "parallel",
        {},
        {
            "proc": "ru_stime",
            "cgroup": "cpu.stat system_usec",
            "perf": "system_time",
        },
    ),
    Counter(
        "context_switches",
        "count",
        "Context switches, voluntary and involuntary.",
        "parallel",
        {},
        {
            "proc": "ru_nvcsw + ru_nivcsw",
            "perf": "context-switches | cs",
        },
    ),
    Counter(
        "threads_busy",
        "count",
        "Largest number of threads of one process that computed and were there at one time: those "
        "with at least a tenth of the busiest one's processor time that, while they were there, "
        "ran for at least a quarter as much of the time as the busiest (a reader or writer beside "
        "the workers does not), or that together with others like them ran for half as much.",
        "parallel",
        {},
        {"proc": "/proc/PID/task/TID/schedstat and stat, sampled"},
    ),
    Counter(
        "run_queue_s",
        "second",
        "Longest that a thread which computed waited for a processor: the machine was busy.",
        "parallel",
        {},
        {"proc": "/proc/PID/task/TID/schedstat, sampled"},
    ),
    Counter(
        "other_load",
        "count",
        "Processors that other work used meanwhile, on average.",
        "parallel",
        {},
        {"proc": "/proc/stat minus the program's processor time"},
    ),
    Counter(
        "stolen_ratio",
        "ratio",
        "Processor time that the host of a virtual machine took away, to what ran and was taken.",
        "parallel",
        {},
        {"proc": "/proc/stat steal"},
    ),
    Counter(
        "context_switches_involuntary",
        "count",
        "Context switches because the processor was wanted elsewhere: the machine was busy.",
        "parallel",
        {},
        {"proc": "ru_nivcsw"},
    ),
    # --- GPU ----------------------------------------------------------------------------------
    Counter(
        "gpu_utilisation",
        "ratio",
        "Mean share of time in which a kernel ran on the GPUs that the program used.",
        "gpu",
        {},
        {"nvml": "nvmlDeviceGetUtilizationRates gpu, mean of samples"},
    ),
    Counter(
        "gpu_memory_bytes",
        "byte",
        "Largest GPU memory that the program's processes held, all GPUs.",
        "gpu",
        {},
        {"nvml": "usedGpuMemory of the compute processes"},
    ),
    Counter(
        "gpu_energy_j",
        "joule",
        "Energy of the GPUs that the program used, idle share included.",
        "gpu",
        {},
        {"nvml": "nvmlDeviceGetTotalEnergyConsumption, end minus start"},
    ),
    Counter(
        "host_to_device_bytes_per_s",
        "byte/s",
        "Mean PCIe traffic from host to GPU.",
        "gpu",
        {TABLE_I: "GPU2CPU & CPU2GPU Bandwidth"},
        {"nvml": "nvmlDeviceGetPcieThroughput RX", "ncu": "pcie__read_bytes.sum.per_second"},
    ),
    Counter(
        "device_to_host_bytes_per_s",
        "byte/s",
        "Mean PCIe traffic from GPU to host.",
        "gpu",
        {TABLE_I: "GPU2CPU & CPU2GPU Bandwidth"},
        {"nvml": "nvmlDeviceGetPcieThroughput TX", "ncu": "pcie__write_bytes.sum.per_second"},
    ),
    Counter(
        "warp_blocks",
        "count",
        "Thread blocks launched on GPUs, all launches.",
        "gpu",
        {TABLE_I: "Warp Blocks"},
        {
            "ncu": "launch__grid_size",
        },
    ),
    Counter(
        "gpu_kernels",
        "count",
        "Kernels launched on GPUs; of a reference kernel: parallel loops in the run.",
        "gpu",
        {},
        {
            "suite": "loops a repetition",
            "ncu": "launches",
            "nsys": "Instances",
            "rajaperf": "Kernels/Rep*Reps",
        },
    ),
    # --- what programs and tools say of themselves ---------------------------------------------
    Counter(
        "algorithm_bytes",
        "byte",
        "Bytes that the program itself says its algorithm reads and writes, each datum once; not "
        "the traffic of any cache.",
        "memory",
        {},
        {"rajaperf": "Bytes/Rep*Reps"},
    ),
    Counter(
        "loop_iterations",
        "count",
        "Iterations of parallel loops, as the program itself says.",
        "parallel",
        {},
        {"rajaperf": "Iterations/Rep*Reps"},
    ),
    Counter(
        "topdown_retiring",
        "ratio",
        "Share of issue slots that did useful work (Yasin's top-down method).",
        "control",
        {},
        {"caliper": "topdown.retiring"},
    ),
    Counter(
        "topdown_bad_speculation",
        "ratio",
        "Share of issue slots that were spent on work thrown away (Yasin's top-down method).",
        "control",
        {},
        {"caliper": "topdown.bad_speculation"},
    ),
    Counter(
        "topdown_frontend_bound",
        "ratio",
        "Share of issue slots that went empty for want of instructions (Yasin's top-down method).",
        "control",
        {},
        {"caliper": "topdown.frontend_bound"},
    ),
    Counter(
        "topdown_backend_bound",
        "ratio",
        "Share of issue slots that waited for data or execution units (Yasin's top-down method).",
        "control",
        {},
        {"caliper": "topdown.backend_bound"},
    ),
    Counter(
        "topdown_memory_bound",
        "ratio",
        "Share of issue slots that waited for data (Yasin's top-down method).",
        "control",
        {},
        {"caliper": "topdown.memory_bound"},
    ),
    Counter(
        "topdown_core_bound",
        "ratio",
        "Share of issue slots that waited for execution units (Yasin's top-down method).",
        "control",
        {},
        {"caliper": "topdown.core_bound"},
    ),
    # --- derived ------------------------------------------------------------------------------
    Counter(
        "int_arith_ratio",
        "ratio",
        "Integer arithmetic instructions as a share of all instructions.",
        "compute",
        {TABLE_I: "Ratio Int Arith. to Total Instr.", TABLE_II: "Arithmetic Intensity"},
        {"derived": "int_ops / instructions"},
    ),
    Counter(
        "fp32_ratio",
        "ratio",
        "Single-precision floating-point instructions as a share of all instructions.",
        "compute",
        {TABLE_II: "Single Floating Point Intensity"},
        {"derived": "fp32_instructions / instructions"},
    ),
    Counter(
        "fp64_ratio",
        "ratio",
        "Double-precision floating-point instructions as a share of all instructions.",
        "compute",
        {TABLE_II: "Double Floating Point Intensity"},
        {"derived": "fp64_instructions / instructions"},
    ),
    Counter(
        "float_arith_ratio",
        "ratio",
        "Floating-point instructions of both precisions as a share of all instructions.",
        "compute",
        {TABLE_I: "Ratio Float Arith. to Total Instr."},
        {"derived": "(fp32_instructions + fp64_instructions) / instructions"},
    ),
    Counter(
        "load_ratio",
        "ratio",
        "Loads as a share of all instructions.",
        "memory",
        {TABLE_II: "Load Intensity"},
        {"derived": "loads / instructions"},
    ),
    Counter(
        "store_ratio",
        "ratio",
        "Stores as a share of all instructions.",
        "memory",
        {TABLE_II: "Store Intensity"},
        {"derived": "stores / instructions"},
    ),
    Counter(
        "memory_ratio",
        "ratio",
        "Loads and stores as a share of all instructions.",
        "memory",
        {TABLE_I: "Ratio Mem. to Total Instr."},
        {"derived": "(loads + stores) / instructions"},
    ),
    Counter(
        "branch_ratio",
        "ratio",
        "Branches as a share of all instructions.",
        "control",
        {TABLE_II: "Branch Intensity"},
        {"derived": "branches / instructions"},
    ),
    Counter(
        "control_ratio",
        "ratio",
        "Control instructions as a share of all instructions.",
        "control",
        {TABLE_I: "Ratio Control to Total Instr."},
        {"derived": "control_instructions / instructions"},
    ),
    Counter(
        "branch_miss_ratio",
        "ratio",
        "Mispredicted branches to branches.",
        "control",
        {TABLE_I: "Ratio Branch Misses to Branch Instr."},
        {"derived": "branch_misses / branches"},
    ),
    Counter(
        "cache_miss_ratio",
        "ratio",
        "Data accesses that miss the first-level cache to those that hit it.",
        "memory",
        {TABLE_I: "Ratio Caches Misses to Hits"},
        {
            "derived": "(l1_load_misses + l1_store_misses) "
            "/ (loads + stores - l1_load_misses - l1_store_misses)"
        },
    ),
    Counter(
        "arithmetic_intensity",
        "flop/byte",
        "Floating-point operations for each byte of main memory traffic.",
        "compute",
        {},
        {"derived": "fp_ops / dram_bytes"},
    ),
    Counter(
        "instructions_per_cycle",
        "ratio",
        "Instructions for each core cycle.",
        "control",
        {},
        {"derived": "instructions / cycles"},
    ),
)
