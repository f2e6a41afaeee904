"""`python -m tests.fuzz`: a campaign."""
import argparse, collections, sys, time, os, json, faulthandler
os.environ.setdefault("MPLBACKEND","Agg")
from hypothesis import HealthCheck, Phase, given, seed, settings
import torch
torch.set_num_threads(1)
sys.dont_write_bytecode=True
from tests.fuzz.command_lines import command_lines
from tests.fuzz.sandbox import copied, run_in
from tests.fuzz.template import template

p=argparse.ArgumentParser(); p.add_argument("n",type=int); p.add_argument("--seed",type=int,default=0); p.add_argument("--only",default="")
a=p.parse_args()
found=collections.OrderedDict(); codes=collections.Counter(); times=collections.defaultdict(list)
faulthandler.enable()
seen=set()
def check(words):
    if str(words) in seen: return
    seen.add(str(words))
    with copied(template()) as folder:
        open("/var/tmp/fz/last","w").write(json.dumps(words))
        faulthandler.dump_traceback_later(150,exit=True)
        t=time.perf_counter()
        e=run_in(folder,words)
        times[words[0] if words else ""].append((time.perf_counter()-t,e.interrupted))
        faulthandler.cancel_dump_traceback_later()
    codes[(e.code,e.interrupted,bool(e.failure))]+=1
    open("/var/tmp/fz/log","a").write(f"{e.code} {e.interrupted} {[x[:60] for x in words]} :: {e.errors.strip()[-200:]!r}\n")
    c=e.complaint()
    if c:
        lines=c.strip().splitlines()
        key=(lines[0][:60], lines[-1][:80], next((l for l in reversed(lines) if "/src/innerloop" in l),""))
        if key not in found:
            found[key]=[0,words,c]
        found[key][0]+=1

def go():
    for k in range(a.n):
        @seed(a.seed+k)
        @settings(max_examples=2,deadline=None,database=None,phases=[Phase.generate],suppress_health_check=list(HealthCheck))
        @given(S)
        def once(words): check(words)
        once()
from tests.fuzz.command_lines import _spoiled,_line,commands
S=command_lines() if not a.only else _spoiled(_line(tuple(a.only.split()),commands()[tuple(a.only.split())]))
t=time.time(); go(); 
for k,(n,w,c) in found.items():
    print("="*100); print(n,[x[:120] for x in w]); print(c[-1800:])
print(codes, time.time()-t)
for v,ts in sorted(times.items(),key=lambda x:-sum(t for t,_ in x[1]))[:22]: print(v[:20],len(ts),round(sum(t for t,_ in ts),1),sum(i for _,i in ts))
