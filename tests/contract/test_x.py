import numpy as np
import pytest
from .samples import *
def test_one(index, mode):
    assert index.search(request(mode=mode))==()
    index.upsert_chunks([chunk(text="数据库 主从切换 failover"), chunk(number=1,text="abc")])
    print(index.search(request("failover",mode=mode)))
    for q in ["", "   ","？！","的了","🙂","a"*20000,"\0"]:
        try: print(repr(q[:10]), [h.id for h in index.search(request(q,mode=mode))])
        except Exception as e: print(repr(q[:10]), repr(e)[:300])
def test_re(index, reopen):
    index.upsert_chunks([chunk(text="数据库 主从切换 failover"), chunk(number=1,text="abc")])
    i=reopen(index)
    assert i.count()==2
    for m in ({'x':float('nan')},{'x':'\ud800'},{'x':object()},{'x':'\0'}):
        try: i.upsert_chunks([chunk(text="a",metadata=m)]); print(m, i.search(request())[0].metadata)
        except BaseException as e: print(m,repr(e)[:300])
    for t in ("\ud800", "\0", "a\nb"):
        try: i.upsert_chunks([chunk(text=t)]); print(repr(t), repr(i.search(request())[0].content))
        except BaseException as e: print(repr(t),repr(e)[:300])
    for v in (np.zeros(8),np.full(8,np.nan),np.ones(4), np.ones(8)*1e30):
        try: print('q',v,i.search(request(vector=v.astype('f'))))
        except BaseException as e: print(repr(e)[:300])
