"""Files in the forms that other tools write, made for the tests, with the name that each is given.

``read_as`` is the purpose for which a command reads the file; None: no command reads it.
"""

# ruff: noqa: E501 - lines are as long as the tools write them

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Sample:
    """A file, or a folder of files, and what the recogniser says of it."""

    file: str
    content: str | bytes | dict[str, str]
    name: str
    read_as: str | None = None

    def write(self, folder: Path) -> Path:
        """Write the file or folder; return its path."""
        path = folder / self.file
        if isinstance(self.content, dict):
            path.mkdir()
            for inner, text in self.content.items():
                (path / inner).write_text(text)
        elif isinstance(self.content, bytes):
            path.write_bytes(self.content)
        else:
            path.write_text(self.content)
        return path


SACCT = (
    "JobID|User|State|Start|End|AllocCPUS|JobName\n"
    "7|ann|COMPLETED|2026-10-01T10:00:00|2026-10-01T11:00:00|4|relax\n"
)
PBS = (
    "10/05/2026 14:03:11;Q;4711.srv;queue=batch\n"
    "10/05/2026 14:03:12;S;4711.srv;user=ann group=phys queue=batch start=1791208992\n"
    '10/05/2026 15:03:12;E;4711.srv;user=ann group=phys account="lab" jobname=relax run '
    "queue=batch ctime=1791208900 qtime=1791208900 etime=1791208900 start=1791208992 "
    "exec_host=n1/0*16+n2/0*16 Resource_List.ncpus=32 Resource_List.nodect=2 "
    "Resource_List.select=2:ncpus=16:ngpus=1 Resource_List.walltime=02:00:00 "
    "Resource_List.mem=64gb session=9 end=1791212592 Exit_status=0 "
    "resources_used.cput=26:00:00 resources_used.mem=2097152kb resources_used.walltime=01:00:00\n"
)
TORQUE = (
    "10/05/2026 15:03:12;E;81[4].head;user=bob group=bio jobname=align queue=long "
    "ctime=1791208900 qtime=1791208900 start=1791208992 exec_host=n1/0-3 "
    "Resource_List.nodes=1:ppn=4 Resource_List.walltime=00:30:00 end=1791210792 Exit_status=-29 "
    "resources_used.mem=1048576kb resources_used.walltime=00:30:00\n"
)
QACCT = f"""{"=" * 62}
qname        all.q
hostname     n1
owner        ann
project      phys
jobname      relax
jobnumber    4711
taskid       3
qsub_time    Mon Oct  5 09:59:00 2026
start_time   Mon Oct  5 10:00:00 2026
end_time     Mon Oct  5 11:00:00 2026
granted_pe   NONE
slots        4
failed       0
exit_status  0
ru_wallclock 3600s
cpu          13000.500s
maxvmem      8.000G
maxrss       1.500G
category     -l h_rt=2:00:00,h_vmem=4G -q all.q
"""
SGE_LINE = (
    "all.q:n1:phys:ann:relax:4711:sge:0:1759312700:1759312800:1759316400:0:0:3600:"
    + ":".join(["1"] * 30)
)
SWF = "; UnixStartTime: 1759312700\n; Computer: X\n" + " ".join(
    map(str, (1, 0, 5, 100, 4, -1, -1, 4, 200, -1, 1, 3, 1, -1, 1, -1, -1, -1))
)
LSF = (
    '"JOB_FINISH" "10.108" 1759316400 4711 1001 33816578 16 1759312700 0 0 1759312800 "ann" "long"'
)
PERF_CSV = "1000.00,msec,task-clock,1000000000,100.00,1.000,CPUs utilized\n2000,,instructions:u,9,100.00,,\n"
PERF_TEXT = """hello from the program
 Performance counter stats for './app --n 4':

          2,500.12 msec task-clock:u                     #    1.923 CPUs utilized
       123,456,789      instructions:u                   #    2.22  insn per cycle              (83.31%)
     <not supported>      LLC-load-misses:u

       1.300000000 seconds time elapsed

       2.400000000 seconds user
       0.100000000 seconds sys

"""
KERNELS = (
    '"Kind","Agent_Id","Queue_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name",'
    '"Correlation_Id","Start_Timestamp","End_Timestamp"\n'
    '"KERNEL_DISPATCH","Agent 4",1,7,1,9,"axpy(float*, int)",1,1000,3000\n'
    '"KERNEL_DISPATCH","Agent 4",1,7,2,9,"axpy(float*, int)",2,5000,6000\n'
)
COUNTERS = (
    '"Correlation_Id","Dispatch_Id","Agent_Id","Process_Id","Grid_Size","Kernel_Name",'
    '"Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"\n'
    '1,1,"Agent 4",7,64,"axpy","FETCH_SIZE",2.0,1000,3000\n'
    '1,1,"Agent 4",7,64,"axpy","WRITE_SIZE",1.0,1000,3000\n'
    '1,1,"Agent 4",7,64,"axpy","VALUBusy",30.0,1000,3000\n'
)
LLAMA = """{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
 "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
 "num_key_value_heads": 4, "vocab_size": 100, "torch_dtype": "bfloat16",
 "max_position_embeddings": 2048}"""

PAST, TRACE, PROFILE, WORKLOAD = "past-jobs", "trace", "profile", "workload"
SAMPLES = (
    Sample("sacct.txt", SACCT, "sacct's parsable table", PAST),
    Sample("bom.txt", "\ufeff" + SACCT, "sacct's parsable table", PAST),
    Sample("utf16.txt", SACCT.encode("utf-16"), "sacct's parsable table", PAST),
    Sample("sacct.gz", gzip.compress(SACCT.encode()), "sacct's parsable table", PAST),
    Sample("headless.txt", SACCT.partition("\n")[2], "without its header"),
    Sample(
        "default.txt",
        "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode\n"
        "------------ ---------- ---------- ---------- ---------- ---------- --------\n"
        "7                 relax        cpu       phys          4  COMPLETED      0:0\n",
        "sacct's default table",
    ),
    Sample("comma.csv", SACCT.replace("|", ","), "another separator"),
    Sample("sacct.json", '{"jobs": [{"association": {"user": "ann"}, "job_id": 12, "steps": []}]}', "sacct --json"),
    Sample("sacct.yaml", "jobs:\n- account: phys\n  allocation_nodes: 1\n", "sacct --yaml"),
    Sample("squeue.json", '{"meta": {}, "jobs": [{"job_id": 1, "job_state": ["RUNNING"]}]}', "squeue --json"),
    Sample("squeue.txt", "   JOBID PARTITION     NAME     USER ST       TIME  NODES\n", "squeue's table"),
    Sample("jobcomp.txt", "JobId=7 UserId=ann(1001) Name=relax JobState=COMPLETED\n", "job completion log"),
    Sample("seff.txt", "Job ID: 7\nCluster: c\nCPU Efficiency: 80.00% of 04:00:00\n", "seff's report"),
    Sample("slurm.conf", "ClusterName=c\nSlurmctldHost=head\n", "Slurm's configuration"),
    Sample(
        "flux.json",
        '{"jobs": [{"id": 5, "t_submit": 1.7e9, "t_run": 1.7e9, "t_cleanup": 1700000060.0, '
        '"userid": 7, "username": "ann", "name": "relax", "state": "INACTIVE", '
        '"result": "COMPLETED", "ntasks": 1, "ncores": 4, "nnodes": 1}]}',
        "flux jobs --json",
        PAST,
    ),
    Sample("flux.txt", "       JOBID USER     NAME       ST NTASKS NNODES     TIME INFO\n", "flux jobs' table"),
    Sample("20261005", PBS, "accounting log of PBS", PAST),
    Sample("torque", TORQUE, "accounting log of PBS", PAST),
    Sample("qstat.json", '{"timestamp": 1, "pbs_version": "23.06", "Jobs": {"7.srv": {}}}', "qstat's list"),
    Sample("qstat.txt", "Job Id: 7.srv\n    Job_Name = relax\n", "qstat's list"),
    Sample("accounting", f"# Version: 8.1\n{SGE_LINE}\n", "Grid Engine (SGE)"),
    Sample("qacct.txt", QACCT, "qacct's report", PAST),
    Sample("lsb.acct", LSF + "\n", "LSF (lsb.acct)"),
    Sample("bacct.txt", "\nAccounting information about jobs that are:\n  - submitted by ann\n", "LSF's bacct"),
    Sample("history", 'MyType = "Job"\nClusterId = 7\nJobStatus = 4\n', "HTCondor's history"),
    Sample("trace.swf", SWF + "\n", "Standard Workload Format", PAST),
    Sample("plain.swf", SWF.splitlines()[-1] + "\n", "Standard Workload Format", PAST),
    Sample(
        "openb_pod_list.csv",
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
        "deletion_time,scheduled_time\np1,4000,1024,1,1000,,LS,Succeeded,0,100,10\n",
        "list of pods (openb)",
        TRACE,
    ),
    Sample("openb_node_list.csv", "sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,2,P100\n", "list of nodes (openb)"),
    Sample("pai.csv", "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu\n", "PAI jobs"),
    Sample("cluster_job_log", '[{"status": "Pass", "vc": "ee9e8c", "jobid": "application_1", "attempts": [], "user": "u"}]', "Philly trace"),
    Sample("helios.csv", "job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n1,u,v,j,8,64,1,COMPLETED,2020-04-01 00:00:00,,,60,0\n", "Helios trace"),
    Sample("acme.csv", "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration\n", "(Acme)"),
    Sample("slurm-log.csv", "id_job,id_array_job,id_user,cpus_req,mem_req,timelimit,state,time_submit,time_start,time_end\n7,0,1,4,0,60,3,1,2,3\n", "MIT Supercloud"),
    Sample("labelled_jobids.csv", "id_job,model\n7,bert\n", "labelled jobs"),
    Sample("jobs.csv", "submit_s,user,cores,seconds@cpu\n0,ann,1,60\n", "table of jobs", TRACE),
    Sample("usage.csv", "job,metric,value\n7,gpus,1\n", "what jobs used", "usage"),
    Sample("perf.csv", PERF_CSV, "perf stat -x,", PROFILE),
    Sample("perf.json", '{"counter-value" : "2000.000000", "unit" : "", "event" : "instructions:u", "event-runtime" : 9, "pcnt-running" : 100.00}\n', "perf stat -j", PROFILE),
    Sample("perf.txt", PERF_TEXT, "perf stat's printed table", PROFILE),
    Sample("perf_de.csv", "5005,12,msec,task-clock,5005120000,100,00,1,CPUs utilized\n", "perf stat -x,"),
    Sample("perf_de.txt", PERF_TEXT.replace(",", ";").replace(".", ",").replace(";", "."), "another locale"),
    Sample("perf_semicolon.csv", PERF_CSV.replace(",", ";"), "another separator than a comma"),
    Sample("perf_I.csv", "     1.000146731,0.72,msec,task-clock,719930,100.00,,\n", "intervals (-I)"),
    Sample("perf_I.txt", "#           time             counts unit events\n     1.000146731          1,234      cycles\n", "intervals (-I)"),
    Sample("perf_A.csv", "CPU0,1.04,msec,task-clock,1041429,100.00,1.007,CPUs utilized\n", "single CPUs (-A)"),
    Sample("perf_A.json", '{"cpu" : "0", "counter-value" : "5.0", "event" : "cycles"}\n', "single CPUs (-A)"),
    Sample("perf_a.txt", " Performance counter stats for 'system wide':\n\n   5  cycles\n", "whole machine (-a)"),
    Sample("perf.data", b"PERFILE2" + bytes(200), "perf record's samples"),
    Sample("report.txt", "# Samples: 1K of event 'cycles'\n# Overhead  Command\n", "report of perf"),
    Sample("likwid.txt", "+---+\n|      Event      | Counter | HWThread 0 |\n", "likwid-perfctr's printed"),
    Sample("massif.out", "desc: --massif-out-file=x\ncmd: ./app\n", "massif.out"),
    Sample("papi.json", '{"papi_version": "7.1.0.0", "cpu_info": "X", "threads": {"0": {"regions": {}}}}', "PAPI's high-level"),
    Sample("papi.txt", "PAPI_TOT_INS: 123456\nPAPI_TOT_CYC: 9999\n", "PAPI's high-level"),
    Sample("profile.0.0.0", "12 templated_functions_MULTI_TIME\n# Name Calls\n", "profile of TAU"),
    Sample("tau", {"profile.0.0.0": "x"}, "profile of TAU"),
    Sample("profile.cubex", b"anchor.xml" + bytes(300), "Score-P (Cube)"),
    Sample("scorep-20261005", {"profile.cubex": "x"}, "Score-P (Cube)"),
    Sample("traces", {"traces.otf2": "x"}, "(OTF2)"),
    Sample("experiment.xml", '<?xml version="1.0"?>\n<!DOCTYPE HPCToolkitExperiment>\n', "file of HPCToolkit's database"),
    Sample("measurements", {"app-0.hpcrun": "x"}, "HPCToolkit's measurements"),
    Sample("r000ue", {"r000ue.vtune": "x"}, "result of VTune"),
    Sample("hotspots.csv", "Function,CPU Time,Module\nmain,1.0,app\n", "VTune's report"),
    Sample("gprof.txt", "Flat profile:\n\nEach sample counts as 0.01 seconds.\n", "gprof's profile"),
    Sample("time.txt", '\tCommand being timed: "./app"\n\tUser time (seconds): 1.0\n', "/usr/bin/time -v"),
    Sample("ncu.txt", "==PROF== Connected to process 1\n  Section: GPU Speed Of Light Throughput\n", "ncu's printed"),
    Sample("app.ncu-rep", b"NVR\0" + bytes(90), "(.ncu-rep)"),
    Sample("app.nsys-rep", bytes([1, 2, 200]) * 50, "nsys' report"),
    Sample("app.sqlite", b"SQLite format 3\0" + b"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL" + bytes(50), "as SQLite"),
    Sample("api.csv", "Time (%),Total Time (ns),Num Calls,Avg (ns),Name\n50.0,10,1,10,cudaMalloc\n", "another report of nsys"),
    Sample("nvprof.csv", '==12== Profiling result:\n"Type","Time(%)","Time","Calls"\n', "nvprof's report"),
    Sample("app_kernel_trace.csv", KERNELS, "table of rocprofv3"),
    Sample("app_counter_collection.csv", COUNTERS, "table of rocprofv3"),
    Sample("results.csv", '"Index","KernelName","gpu-id","queue-id","DurationNs"\n0,"axpy.kd",4,0,1000\n', "(version 1)"),
    Sample("v2.csv", "Dispatch_ID,GPU_ID,Queue_ID,Kernel_Name,Start_Timestamp,End_Timestamp\n0,4,1,axpy,1,2\n", "rocprofv2's"),
    Sample("app_results.db", b"SQLite format 3\0" + b"CREATE TABLE rocpd_string_7" + bytes(50), "(rocpd)"),
    Sample("trace.json", '{"schemaVersion": 1, "traceEvents": [{"ph": "X"}]}', "trace of events"),
    Sample("config.json", LLAMA, "config.json", WORKLOAD),
    Sample("adapter_config.json", '{"base_model_name_or_path": "x/y", "peft_type": "LORA", "r": 8}', "LoRA adapter"),
    Sample("lora", {"adapter_config.json": "{}"}, "LoRA adapter"),
    Sample("model_index.json", '{"_class_name": "FluxPipeline", "_diffusers_version": "0.30"}', "diffusers"),
    Sample("model.gguf", b"GGUF" + bytes(60), "(GGUF)"),
    Sample("params.json", '{"dim": 4096, "n_layers": 32, "n_heads": 32, "vocab_size": -1}', "params.json"),
    Sample("tokenizer_config.json", '{"added_tokens_decoder": {}, "tokenizer_class": "X"}', "tokenizer's"),
    Sample("lfs.onnx", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "Git LFS"),
    Sample("page.json", "<!DOCTYPE html>\n<html><title>401</title></html>\n", "web page"),
    Sample("gated.json", '{"error": "Access to model x/y is restricted."}', "server's error message"),
    Sample("failed.txt", "sacct: error: Problem talking to the database: Connection refused\n", "error message of sacct"),
    Sample("events.txt", "1762160000.123 submit userid=1001 urgency=16\n1762160001.0 alloc\n", "event log of a Flux job"),
    Sample("bjobs.json", '{"COMMAND":"bjobs","JOBS":1,"RECORDS":[{"JOBID":"7","STAT":"DONE"}]}', "bjobs as JSON"),
    Sample("pods.json", '{"apiVersion":"v1","items":[],"kind":"List"}', "Kubernetes"),
    Sample("pai.csv", "job_name,inst_id,user,status,start_time,end_time\na,b,c,Terminated,1.0,2.0\n", "PAI jobs"),
    Sample("script.txt", "app 123 1234.567890:     250000 cycles:u:      55d0 main+0x12 (app)\n", "report of perf"),
    Sample("paranoid.txt", "Error:\nConsider adjusting /proc/sys/kernel/perf_event_paranoid setting\n", "error message of perf"),
    Sample("topology.txt", "CPU type:\tX\n****\nHardware Thread Topology\n****\n", "likwid-topology"),
    Sample("avail.txt", "Available PAPI preset and user defined events\n----\n", "PAPI's list of events"),
    Sample("pprof.txt", "Reading Profile files in profile.*\n\nNODE 0;CONTEXT 0;THREAD 0:\n", "profile of TAU"),
    Sample("scorep.score", "\nEstimated aggregate size of event trace:   12kB\n", "scorep-score"),
    Sample("linaro.txt", "Command: ./app\nSummary: app is Compute-bound in this configuration\n", "Performance Reports"),
    Sample("dmon.txt", "# gpu     pwr  gtemp  mtemp\n# Idx       W      C      C\n    0     250     45     40\n", "nvidia-smi"),
    Sample("pmc.csv", 'Dispatch_ID,GPU_ID,Queue_ID,Grid_Size,LDS,Kernel_Name\n1,4,1,111,64,"axpy",2000,13.23\n', "rocprofv2's"),
    Sample("index.json", '{"metadata": {}, "weight_map": {"a": "model-1.safetensors"}}', "index of a model's weights"),
    Sample("model.tflite", b"\x1c\0\0\0TFL3" + bytes(60), "compiled for one runtime"),
    Sample("jobs.txt.xz", b"\xfd7zXZ\0" + bytes(60), "compressed file"),
    Sample("job.sh", "#!/bin/sh\nsrun ./app\n", "program or a script"),
    Sample("both.txt", PERF_CSV + SACCT, "two kinds of file at once"),
    Sample("both.acct", PBS + SWF + "\n", "two kinds of file at once"),
)  # fmt: skip
