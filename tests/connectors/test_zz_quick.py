import time
from tests.portals.datajson import DataJsonSite
from tests.portals.ckan import CkanPortal
async def test_q(house, new_house):
    s = DataJsonSite(); s.fill(20001)
    async with house.open() as r:
        run = await r.sync(s.address); print('dj first', run.tally.seconds, run.tally.rows_written, run.status)
        run = await r.sync(s.address); print('dj 304', run.tally.seconds, run.tally.requests, run.tally.unchanged, run.tally.bytes)
        run = await r.sync(s.address, full=True); print('dj full same', run.tally.seconds, run.tally.unchanged, run.tally.rows_written)
        for i in range(20): s.records[i*900]['title'] = 'x%d' % i
        run = await r.sync(s.address); print('dj 0.1%', run.tally.seconds, run.tally.updated, run.tally.rows_written, run.tally.requests)
    s.close()
    p = CkanPortal(); p.fill(20000)
    h = new_house()
    async with h.open() as r:
        run = await r.sync(p.address); print('ckan first', run.tally.seconds, run.tally.requests, run.status)
        run = await r.sync(p.address); print('ckan none', run.tally.seconds, run.tally.requests, run.tally.rows_written, run.tally.bytes)
        run = await r.sync(p.address, full=True); print('ckan full same', run.tally.seconds, run.tally.unchanged, run.tally.rows_written, run.tally.bytes)
        for i in range(20): p.put('d%05d' % (i*900), 'x%d' % i, tick_h=0.1)
        run = await r.sync(p.address); print('ckan 0.1%', run.tally.seconds, run.tally.updated, run.tally.unchanged, run.tally.rows_written, run.tally.requests)
        del p.records['d00005']
        run = await r.sync(p.address); print('ckan roll', run.tally.seconds, run.tally.requests, run.tally.bytes, run.tally.deleted)
    p.close()
