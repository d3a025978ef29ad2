var __defProp=Object.defineProperty;var __export=(target,all2)=>{for(var name in all2)__defProp(target,name,{get:all2[name],enumerable:!0})};function h(tag,props,...children){let el=document.createElement(tag);for(let[name,value]of Object.entries(props??{}))name.
startsWith("on")?el.addEventListener(name.slice(2),value):attr(el,name,value);return el.append(...children.flat().filter(
child=>child!=null)),el}var SVG="http://www.w3.org/2000/svg";function svg(tag,attributes,...children){let el=document.createElementNS(
SVG,tag);for(let[name,value]of Object.entries(attributes??{}))el.setAttribute(name,value);return el.append(...children),
el}function attr(el,name,value){value==null||value===!1?el.removeAttribute(name):el.getAttribute(name)!==String(value)&&
el.setAttribute(name,value===!0?"":value)}var written=new WeakMap;function text(el,value){let translated=()=>written.get(
el)===value&&!el.querySelector(":not(font)");el.textContent!==value&&!translated()&&(el.textContent=value),written.set(el,
value)}function show(el,visible){el.hidden===!!visible&&(el.hidden=!visible)}function keepFocusNear(){let trail=[];document.
addEventListener("pointerdown",()=>trail=[],{capture:!0}),document.addEventListener("focusin",({target})=>{if(!target.closest(
"dialog")){trail=[];for(let el=target;el;el=el.parentElement)trail.push(el)}}),new MutationObserver(()=>{let[last]=trail,
active=document.activeElement;if(!last||active!==last&&active!==document.body||last.isConnected&&!last.closest("[hidden]"))
return;let place=trail.find(el=>el.matches("[aria-labelledby], [role='group'][tabindex]")&&el.isConnected&&el.checkVisibility()),
to=document.getElementById(place?.getAttribute("aria-labelledby"))??place??document.querySelector("main h1");to?.tabIndex<
0&&attr(to,"tabindex",-1),to?.focus({preventScroll:!0})}).observe(document.body,{subtree:!0,childList:!0,attributeFilter:[
"hidden"]})}function focusPage(){(document.querySelector("main [data-first]")??document.querySelector("main h1"))?.focus(
{preventScroll:!0})}var ids=0;function newID(what){return`${what}-${++ids}`}var samples=[],coarse=null;function observe(headers,sent,got){let exact=headers.has("X-Server-Time"),at=exact?Date.parse(
headers.get("X-Server-Time")):Date.parse(headers.get("Date"))+500;if(Number.isNaN(at))return;let fresh={offset:at-(sent+
got)/2,rtt:got-sent,device:Date.now()-performance.now()};dropContradicted(fresh,exact?100:1e3),exact?samples.push(fresh):
coarse=fresh,samples.length>8&&samples.shift()}function dropContradicted(fresh,slack){samples=samples.filter(s=>Math.abs(
s.offset+slept(s)-fresh.offset)<=(s.rtt+fresh.rtt)/2+slack)}function slept(sample){let ms=Date.now()-performance.now()-sample.
device;return ms>1e3?ms:0}function now(){let best=samples[0]??coarse;if(!best)return Date.now();for(let s of samples)s.rtt<=
best.rtt&&(best=s);return performance.now()+best.offset+slept(best)}var i18n_exports={};__export(i18n_exports,{choose:()=>choose,clockTime:()=>clockTime,discount:()=>discount,duration:()=>duration,
has:()=>has,hour:()=>hour,language:()=>language,languageOf:()=>languageOf,languages:()=>languages,left:()=>left,money:()=>money,
number:()=>number,onLanguage:()=>onLanguage,percent:()=>percent,stamp:()=>stamp,t:()=>t,use:()=>use,zone:()=>zone});var PLACES={BHD:3,BIF:0,CLF:4,CLP:0,DJF:0,GNF:0,IQD:3,ISK:0,JOD:3,JPY:0,KMF:0,KRW:0,KWD:3,LYD:3,OMR:3,PYG:0,RWF:0,TND:3,
UGX:0,UYI:0,UYW:4,VND:0,VUV:0,XAF:0,XOF:0,XPF:0},digits=currency2=>PLACES[currency2]??2;function topic(){let listeners=new Set;return{on(listener){return listeners.add(listener),()=>listeners.delete(listener)},
emit(...args){for(let listener of[...listeners])listener(...args)}}}function sleep(ms,signal){return new Promise(resolve=>{
if(signal?.aborted)return resolve();let timer2=setTimeout(done,ms);function done(){clearTimeout(timer2),removeEventListener(
"online",done),signal?.removeEventListener("abort",done),resolve()}addEventListener("online",done),signal?.addEventListener(
"abort",done)})}function backoff(n,first,most){let full2=Math.min(most,first*2**n);return full2/2+Math.random()*full2/2}function storage(part){let refused2=new Map;return{get(name){try{return refused2.get(name)??window[part].getItem(name)}catch{
return null}},set(name,value){refused2.delete(name);try{value===null?window[part].removeItem(name):window[part].setItem(
name,value)}catch{value!==null&&refused2.set(name,value)}},names(){try{return Object.keys(window[part])}catch{return[]}}}}
var forAll=storage("localStorage"),forTab=storage("sessionStorage");var REMEMBERED="seckill.language",changes=topic(),dictionaries={},current="en",languages={en:"English",zh:"中文"};function use(texts){
dictionaries=texts;let preferred=[forAll.get(REMEMBERED),...navigator.languages??[navigator.language]];select(preferred.
map(l=>(l??"").slice(0,2).toLowerCase()).find(l=>l in texts)??"en")}function choose(language2){select(language2),forAll.
set(REMEMBERED,language2),changes.emit()}var language=()=>current,onLanguage=changes.on;function select(language2){current=
language2,document.documentElement.lang=language2==="zh"?"zh-CN":"en"}var has=key=>key in dictionaries[current];function t(key,values={}){
let text2=dictionaries[current][key];if(text2===void 0)throw new Error(`no text for ${key} in ${current}`);return text2.
replace(/\{(\w+)(?:\|([^|}]*)\|([^|}]*))?\}/g,(_2,name,one3,more2)=>one3===void 0?values[name]:String(values[name])==="1"?
one3:more2)}var locale=()=>current==="zh"?"zh-CN":(navigator.languages??[]).find(l=>l.startsWith("en"))??"en-GB",formatters=new Map;
function formatter(type,options){let key=`${type} ${locale()} ${JSON.stringify(options)}`;return formatters.has(key)||formatters.
set(key,new Intl[type](locale(),options)),formatters.get(key)}function money(amount3,currency2){let places=digits(currency2),
unit=10**places,decimals={minimumFractionDigits:amount3%unit===0?0:places,maximumFractionDigits:places},currencyDisplay=currency2===
"CNY"?"narrowSymbol":"symbol",code=/^[A-Z]{3}$/i.test(currency2)?currency2:"XXX",words2=formatter("NumberFormat",{style:"\
currency",currency:code,currencyDisplay,...decimals}).format(amount3/unit);return currency2==="JPY"?words2.replace(/(JP)?¥/,
"JP¥"):words2}var number=n=>formatter("NumberFormat").format(n),percent=share=>formatter("NumberFormat",{style:"percent"}).
format(share);function discount(price,value){let share=price<value?Math.round(100-100*price/value):0;return share<=0||share>=
100?"":t("off",{off:current==="zh"?number((100-share)/10):share})}var year="numeric",dayAndTime={month:"short",day:"nume\
ric",hour:"2-digit",minute:"2-digit",second:"2-digit",hourCycle:"h23"},{month,day,...timeOfDay}=dayAndTime,{second,...hourOfDay}=timeOfDay,
DAY=864e5,stamp=time3=>formatter("DateTimeFormat",{year,...dayAndTime}).format(new Date(time3));function hour(time3,now2){
let at=new Date(time3),away=Math.abs(at-now2);if(away<DAY)return formatter("DateTimeFormat",hourOfDay).format(at);let far=away>
30*DAY&&at.getFullYear()!==new Date(now2).getFullYear();return formatter("DateTimeFormat",{month,day,...far?{year}:hourOfDay}).
format(at)}var clockTime=time3=>formatter("DateTimeFormat",timeOfDay).format(time3);function duration(seconds){let minutes2=Math.
floor(seconds/60),rest=seconds%60;return minutes2===0?t("time.seconds",{s:rest}):minutes2>=10||rest===0?t("time.minutes",
{n:number(minutes2)}):t("time.minutesSeconds",{n:minutes2,s:rest})}var languageOf=words2=>/\p{Script=Han}/u.test(words2)?
"zh-CN":"en";function zone(at=new Date){let format=new Intl.DateTimeFormat("en-GB",{timeZoneName:"longOffset"}),offset=format.
formatToParts(at).find(p=>p.type==="timeZoneName").value.replace("GMT","UTC");return`${format.resolvedOptions().timeZone}\
 (${offset})`}function left(ms,short=!1){let all2=Math.max(0,Math.ceil(ms/1e3)),two=n=>String(n).padStart(2,"0"),days2=Math.
floor(all2/86400),minutes2=`${two(Math.floor(all2/60)%60)}:${two(all2%60)}`;if(short&&all2<3600)return minutes2;let clock=`${two(
Math.floor(all2/3600)%24)}:${minutes2}`;return days2>0?t("time.days",{days:days2,clock}):clock}var MOMENT=6e4;function explain(problem){if(problem.retryAfter>MOMENT)return t("error.wait",{at:hour(now()+problem.retryAfter,
now())});let key=`error.${problem.code}`;return has(key)?t(key):t(problem.status>=500?"error.internal":"error.other")}function reference(problem){return problem.requestId?t("error.reference",{id:problem.requestId}):""}var paths={alert:"M12 4 2.5 20h19zM12 10v4.5M12 17.2v.3",back:"M15 5l-7 7 7 7",bell:"M6 17v-6a6 6 0 0 1 12 0v6l1.5 2h-15\
zM10.5 21.5h3",calendar:"M4 6h16v14H4zM4 10.5h16M8.5 3v4M15.5 3v4",check:"M12 3a9 9 0 1 0 0 18a9 9 0 1 0 0-18M8 12.2l2.8\
 2.8L16 9.5",clock:"M12 3a9 9 0 1 0 0 18a9 9 0 1 0 0-18M12 7v5l3.5 2",console:"M4 4h7v9H4zM15 4h5v5h-5zM15 13h5v7h-5zM4 \
17h7v3H4z",cross:"M12 3a9 9 0 1 0 0 18a9 9 0 1 0 0-18M9 9l6 6M15 9l-6 6",exit:"M14 4H5v16h9M10 12h11M17 8l4 4-4 4",orders:"\
M6 3h12v18l-3-2-3 2-3-2-3 2zM9.5 8h5M9.5 12h5",pin:"M12 21c5-5 7-8.2 7-11a7 7 0 0 0-14 0c0 2.8 2 6 7 11zM12 7.5a2.5 2.5 \
0 1 0 0 5a2.5 2.5 0 1 0 0-5",share:"M12 15V3.5M8 7l4-3.5L16 7M5 12v8h14v-8",user:"M12 4a4 4 0 1 0 0 8a4 4 0 1 0 0-8M4.5 \
20.5a7.5 7.5 0 0 1 15 0"},icon=name=>svg("svg",{class:"icon",viewBox:"0 0 24 24","aria-hidden":"true"},svg("path",{d:paths[name]}));function channelOf(name){try{return new BroadcastChannel(name)}catch{return null}}async function exclusive(name,work,{signal,
alone=work}={}){let granted=!1;try{return await navigator.locks.request(name,{signal},()=>(granted=!0,work()))}catch(err){
if(granted||signal?.aborted)throw err;return alone()}}var NAME="seckill.session",BY_COOKIE={"X-Refresh-Token":"cookie"},EARLY=6e4,TIMEOUT=4e3,ATTEMPTS=3,RETRY_PAUSE=5e3,changes2=topic(),
channel=channelOf(NAME),user=null,lastPhone="",token="",expires=0,renewing=null,timer=0,starting=!0,hint=()=>forAll.get(
NAME)==="1";function adopt(login2,broadcast){let before=user?.id;({access_token:token,user}=login2),expires=performance.
now()+login2.expires_in*1e3,scheduleRenewal(Math.max(1e3,login2.expires_in*1e3-EARLY)),broadcast&&channel?.postMessage({
login:login2}),user.id!==before&&changes2.emit(user)}function scheduleRenewal(pause){clearTimeout(timer),timer=setTimeout(
()=>session.renew().catch(()=>{}),pause)}function drop(broadcast){clearTimeout(timer),token="",broadcast&&(forAll.set(NAME,
null),channel?.postMessage({logout:!0})),user&&(lastPhone=user.phone,user=null,changes2.emit(null))}channel?.addEventListener(
"message",({data})=>{data.login&&adopt(data.login,!1),data.logout&&drop(!1)});async function exchange(){for(let attempt=1;;attempt++)
try{return await json(await send("POST","/auth/refresh",{headers:BY_COOKIE,keepalive:!0,timeout:TIMEOUT}))}catch(problem){
if(problem.code!=="network"||attempt===ATTEMPTS)throw problem;await sleep(backoff(attempt,100,500))}}async function renew(){
let stale=token;try{await exclusive(NAME,async()=>{if(token&&token!==stale)return;let login2=await exchange();token===stale&&
(forAll.set(NAME,"1"),adopt(login2,!0))})}catch(problem){if(token!==stale)return;throw problem.code==="unauthenticated"?
drop(!0):token&&scheduleRenewal(Math.max(problem.retryAfter,RETRY_PAUSE*(1+Math.random()))),problem}}var session={user:()=>user,
lastPhone:()=>lastPhone,may:permission=>user?.permissions?.includes(permission)??!1,on:changes2.on,async start(failed=()=>{}){
let failures2=0;for(;hint()&&!token;failures2++)try{await session.renew()}catch(problem){hint()&&failed(problem),await sleep(
Math.max(problem.retryAfter,backoff(failures2,500,1e4)))}starting=!1,failures2>0&&!user&&changes2.emit(null)},pending:()=>starting&&
!token&&hint(),async token(){if(!token&&!hint())throw new Problem({code:"unauthenticated",status:401});return(!token||performance.
now()>expires)&&await session.renew(),token},renew(){return renewing??=renew().finally(()=>renewing=null),renewing},async sendCode(phone){
let response=await send("POST","/auth/code",{body:{phone},headers:BY_COOKIE});return{...await json(response),demo:response.
headers.get("X-Demo-Code")??""}},async login(phone,code,loginID,totp){await exclusive(NAME,async()=>{let body2={phone,code,
login_id:loginID,...totp&&{totp}},login2=await json(await send("POST","/auth/login",{body:body2,headers:BY_COOKIE}));forAll.
set(NAME,"1"),adopt(login2,!0)})},async logout({everywhere=!1}={}){try{await asUser("POST",everywhere?"/auth/logout-all":
"/auth/logout",{headers:BY_COOKIE})}catch(problem){if(problem.code!=="unauthenticated")throw problem}drop(!0)},async erase(){
await asUser("DELETE","/me",{headers:BY_COOKIE}),drop(!0)},expired(rejected){rejected===token&&drop(!0)}};var BASE="/api/v1",TIMEOUT2=1e4,Problem=class extends Error{constructor(fields3){super(`${fields3.code}: ${fields3.detail??
fields3.title??""}`),Object.assign(this,{status:0,retryAfter:0,requestId:"",orderId:"",errors:[]},fields3)}};function codeOf(status){
return status===413?"too_large":status===429?"rate_limited":status>=502&&status<=504?"unavailable":"internal"}async function problemOf(response){
let body2={};try{body2=await response.json()}catch{}return new Problem({code:body2.code??codeOf(response.status),title:body2.
title,detail:body2.detail,status:response.status,requestId:body2.request_id??response.headers.get("X-Request-Id")??"",orderId:body2.
order_id??"",errors:body2.errors??[],foreign:body2.code===void 0,challenge:body2.challenge,shopName:body2.shop_name,retryAfter:1e3*
(Number(response.headers.get("Retry-After"))||0)})}async function send(method,path,{body:body2,key,token:token2,headers,
signal,timeout=TIMEOUT2,keepalive,stream,cache="no-store"}={}){let abort=new AbortController,stop=()=>abort.abort();signal?.
addEventListener("abort",stop),signal?.aborted&&stop();let timer2=setTimeout(stop,timeout),all2=new Headers(headers);token2&&
all2.set("Authorization",`Bearer ${token2}`),key&&all2.set("Idempotency-Key",key);let form2=body2 instanceof FormData;body2!==
void 0&&!form2&&all2.set("Content-Type","application/json");let sent=performance.now();try{let response=await fetch(BASE+
path,{method,headers:all2,body:form2?body2:JSON.stringify(body2),signal:abort.signal,cache,redirect:"error",keepalive});
if(observe(response.headers,sent,performance.now()),!response.ok)throw await problemOf(response);if(stream)return response;
let{status,headers:headers2}=response;return new Response(status===204?null:await response.arrayBuffer(),{status,headers:headers2})}catch(err){
throw err instanceof Problem?err:new Problem({code:"network",detail:String(err)})}finally{clearTimeout(timer2)}}async function asUser(method,path,{
as,...options}={}){let token2="",attempt=async()=>{if(token2=await session.token(),as&&session.user()?.id!==as)throw new Problem(
{code:"other_user"});return send(method,path,{...options,token:token2})};try{return await attempt()}catch(problem){if(problem.
code==="token_expired")return await session.renew(),attempt();throw problem.code==="unauthenticated"&&session.expired(token2),
problem}}async function json(response){try{return response.status===204?null:await response.json()}catch(err){throw new Problem(
{code:"network",detail:String(err)})}}var orNull=answer=>answer.catch(problem=>{if(!problem.code)throw problem;return null}),
get=async(path,options)=>json(await send("GET",path,options)),getMine=async(path,options)=>json(await asUser("GET",path,
options)),postMine=async(path,options)=>json(await asUser("POST",path,options)),patchMine=async(path,options)=>json(await asUser(
"PATCH",path,options)),deleteMine=async(path,options)=>json(await asUser("DELETE",path,options));function newKey(){return Array.
from(crypto.getRandomValues(new Uint8Array(16)),b=>b.toString(16).padStart(2,"0")).join("")}var unknown=["network","internal","unavailable","order_in_progress"],early=["unauthenticated","token_expired","forbidden",
"rate_limited","overloaded"],STORED="seckill.open",LIFETIME=23*36e5,stored=JSON.parse(forTab.get(STORED)??"{}");function intents({
lasting=!1}={}){let all2=lasting?stored:{},keep=(path,intent)=>{all2[path]=intent,lasting&&forTab.set(STORED,JSON.stringify(
stored))},openAt=path=>all2[path]?.user===session.user()?.id?all2[path]:void 0,same=(path,body2)=>{let open3=openAt(path);
return open3!==void 0&&Date.now()-open3.at<LIFETIME&&JSON.stringify(open3.body)===JSON.stringify(body2)},post=async(path,body2)=>{
let again=same(path,body2),mine=again?openAt(path):{body:body2,key:newKey(),user:session.user()?.id,at:Date.now()};keep(
path,mine);let close2=()=>{all2[path]===mine&&keep(path,void 0)};try{let answer=await postMine(path,{key:mine.key,body:body2});
return close2(),answer}catch(problem){throw problem.open=unknown.includes(problem.code)||again&&early.includes(problem.code),
problem.open||close2(),problem}};return post.open=path=>openAt(path)?.body,post.same=same,post}var once=event=>{event.detail>
1&&event.preventDefault()};function singleFlight(button2,errorBox2,work){let working=!1;return async event=>{if(event?.preventDefault(),
!(working||event?.detail>1||button2.getAttribute("aria-disabled")==="true")){working=!0,errorBox2.clear(),attr(button2,"\
aria-disabled","true"),attr(button2,"data-busy",!0);try{await work()}catch(problem){if(!problem.code)throw problem;errorBox2.
show(problem)}finally{working=!1,attr(button2,"aria-disabled",null),attr(button2,"data-busy",null)}}}}var VALID=12e4,open=null,quota=problem=>problem.retryAfter>VALID;function login({again=!1}={}){return open??=openDialog(
again).finally(()=>open=null),open}function demoAccounts(choose2){let accounts=(document.documentElement.dataset.demo??"").
split(";").filter(Boolean).map(a=>a.split(" "));return accounts.length===0?null:h("div",{class:"demo note"},h("p",{},t("\
login.demoAccounts")),h("ul",{},accounts.map(([role,number2])=>h("li",{},h("button",{type:"button",class:"quiet","data-r\
ole":role,onclick:()=>choose2(number2)},t(`role.${role}`)," ",h("span",{class:"number"},number2))))))}function openDialog(again){
return new Promise(resolve=>{let ids3={title:newID("login"),phone:newID("phone"),format:newID("format"),code:newID("code"),
note:newID("note"),error:newID("error"),totp:newID("totp"),totpNote:newID("note")},phone=h("input",{id:ids3.phone,type:"\
tel",name:"phone",autocomplete:"tel",inputmode:"tel",required:!0,"aria-describedby":`${ids3.format} ${ids3.error}`,oninput:()=>render3()}),
code=h("input",{id:ids3.code,type:"text",name:"code",autocomplete:"one-time-code",inputmode:"numeric","aria-describedby":`${ids3.
note} ${ids3.error}`}),totp=h("input",{id:ids3.totp,type:"text",name:"totp",autocomplete:"one-time-code",inputmode:"nume\
ric","aria-describedby":`${ids3.totpNote} ${ids3.error}`}),note=h("p",{id:ids3.note,class:"note"}),error=h("p",{id:ids3.
error,class:"error",role:"alert"}),resend=h("button",{type:"button",class:"link",onclick:()=>resend.hasAttribute("aria-d\
isabled")||send2()},t("login.resend")),submit=h("button",{type:"submit",class:"primary",onclick:once}),second2=h("div",{
class:"field"},h("label",{for:ids3.code},t("login.code")),code,note,resend),third=h("div",{class:"field"},h("label",{for:ids3.
totp},t("login.totp")),totp,h("p",{id:ids3.totpNote,class:"note"},t("login.totpNote"))),demo=demoAccounts(enterAs),form2=h(
"form",{onsubmit:next,novalidate:!0},h("h2",{id:ids3.title},t("login")),again||!demo?h("p",{class:"note"},t(again?"login\
.ended":"login.why")):null,h("div",{class:"field"},h("label",{for:ids3.phone},t("login.phone")),phone,h("p",{id:ids3.format,
class:"note"},t("login.format")),demo),second2,third,error,h("div",{class:"actions"},h("button",{type:"button",class:"qu\
iet",onclick:()=>dialog.close()},t("cancel")),submit)),dialog=h("dialog",{"aria-labelledby":ids3.title,class:"sheet",onclose:closed},
form2),sentTo="",loginID,needsTOTP=!1,done=!1,working=!1,ticking=0,sent=()=>sentTo!==""&&sentTo===phone.value.trim();function render3(){
show(second2,sent()),show(third,sent()&&needsTOTP),text(submit,working?t("working"):sent()?t("login.enter"):t("login.sen\
d")),attr(submit,"aria-disabled",working)}function fail(problem){if(problem.code==="totp_required"){needsTOTP&&text(error,
t("login.wrongTOTP")),needsTOTP=!0,render3(),totp.value="",totp.focus();return}if(problem.code==="rate_limited"&&!sent()){
text(error,quota(problem)?t("login.quota",{at:hour(now()+problem.retryAfter,now())}):t("login.sentBefore"));return}let wrongCode=problem.
code==="unauthenticated";text(error,wrongCode?t("login.wrong"):problem.code==="invalid_request"&&!sent()?t("login.badpho\
ne"):explain(problem))}async function work(what){if(working)return;working=!0;let number2=phone.value.trim();text(error,
""),render3();try{await what()}catch(problem){fail(problem),problem.code==="rate_limited"&&!quota(problem)&&(sentTo=number2),
problem.retryAfter>0&&countDown(problem.retryAfter)}finally{working=!1,render3()}}function countDown(ms){let until=performance.
now()+ms;clearInterval(ticking);let tick=()=>{let rest=until-performance.now();attr(resend,"aria-disabled",rest>0),text(
resend,rest>0?t("login.resendIn",{left:duration(Math.ceil(rest/1e3))}):t("login.resend")),rest<=0&&clearInterval(ticking)};
ticking=setInterval(tick,1e3),tick()}async function sendCode(){let number2=phone.value.trim(),answer=await session.sendCode(
number2);sentTo=number2,loginID=answer.login_id,needsTOTP=!1,totp.value="",render3(),sent()&&(text(note,answer.demo?t("l\
ogin.demo",{code:answer.demo}):t("login.sent")),code.value=answer.demo,countDown(answer.resend_after*1e3),code.focus())}
async function enter(){await session.login(phone.value.trim(),code.value.trim(),loginID,totp.value.trim()),done=!0,dialog.
close()}let send2=()=>work(sendCode);function enterAs(number2){working||(phone.value=number2,sentTo="",work(async()=>{await sendCode(),
await enter()}))}function next(event){if(event.preventDefault(),!sent()){if(phone.value.trim()===""){text(error,t("login\
.badphone")),phone.focus();return}send2();return}work(enter)}function closed(){clearInterval(ticking),dialog.remove(),document.
activeElement===document.body&&focusPage(),resolve(done)}again&&(phone.value=session.lastPhone()),render3(),document.body.
append(dialog),dialog.showModal(),phone.focus()})}var{t:t2}=i18n_exports,root=document.getElementById("page"),nav=document.getElementById("nav"),account=document.getElementById(
"account"),pages,missing,links,foot,badge,openAccount,unmount=()=>{},shown="",titled="",find=path=>pages.find(p=>p.path.
test(path)),here=()=>find(location.pathname)??missing,full=url=>url.pathname+url.search,home=document.querySelector(".br\
and").getAttribute("href"),staff=home==="/console",shop=JSON.parse(document.documentElement.dataset.shop??"{}");function open2(moved){
unmount(),shown=location.pathname;let page2=here();unmount=page2.mount(root,...(page2.path?.exec(location.pathname)??[]).
slice(1))??(()=>{}),showTitle(),markCurrent(),moved&&(scrollTo(0,0),focusPage())}function back(){let from=shown;for(let dialog of document.
querySelectorAll("dialog[open]"))dialog.close();open2(!0),[...root.querySelectorAll("a")].find(link4=>link4.getAttribute(
"href")===from)?.focus()}function brand(){return shop.name?staff?`${shop.name} · ${t2("console")}`:shop.name:t2("brand")}
function luminance(color2){let[red,green,blue]=[1,3,5].map(at=>parseInt(color2.slice(at,at+2),16)/255).map(part=>part<=.04045?
part/12.92:((part+.055)/1.055)**2.4);return .2126*red+.7152*green+.0722*blue}function dress(){if(shop.logo&&document.querySelector(
".mark").replaceWith(h("img",{class:"mark",src:shop.logo,alt:""})),!shop.color)return;let{style}=document.documentElement;
style.setProperty("--accent",shop.color),style.setProperty("--accent-press",`color-mix(in srgb, ${shop.color} 85%, ${luminance(
shop.color)>.179?"white":"black"})`),style.setProperty("--accent-ink",luminance(shop.color)>.179?"#000":"#fff")}function showTitle(){
let{title}=here(),words2=[badge(),typeof title=="function"?title():t2(title),brand()].filter(Boolean).join(" · ");words2!==
titled&&(document.title=titled=words2)}function go(path,state=null){let to=new URL(path,location.href);return find(to.pathname)?
((full(to)!==full(location)||state!==history.state)&&history.pushState(state,"",full(to)),open2(!0),!0):!1}var goFrom=(from,path)=>location.
pathname===from&&go(path),reload=()=>open2(!1);function onClick(event){let link4=event.target.closest?.("a[href^='/']");
!link4||event.defaultPrevented||event.button!==0||event.metaKey||event.ctrlKey||event.shiftKey||event.altKey||go(link4.href)&&
event.preventDefault()}function markCurrent(){for(let link4 of nav.querySelectorAll("a")){let current2=link4.getAttribute(
"href")===here().nav;attr(link4,"aria-current",current2?"page":null),current2&&(nav.scrollLeft=link4.offsetLeft-nav.offsetLeft)}}
var accountButton=(name,press,...sign2)=>h("button",{type:"button",class:"quiet","data-do":name,onclick:press},sign2,h("\
span",{class:"word"},t2(name)));function leave(){let say=words2=>text(account.querySelector("output"),words2),button2=accountButton(
"logout",event=>press(event),icon("exit")),press=singleFlight(button2,{clear:()=>say(""),show:problem=>say(explain(problem))},
session.logout);return button2}var accountOf=phone=>h("button",{type:"button",class:"phone link","data-do":"account","ar\
ia-haspopup":"dialog",onclick:openAccount},icon("user"),h("span",{class:"word"},h("span",{class:"sr"},t2("login.as")," "),
phone));function more(){let demo="demo"in document.documentElement.dataset,lang=language();return[[shop.imprint,"more.im\
print",!staff&&shop.imprint],[shop.privacy,"more.privacy",!staff&&shop.privacy],["/","more.shop",staff],["/console","con\
sole",!staff&&demo],[`/docs?lang=${lang}`,"more.docs",staff||demo],[`/problems?lang=${lang}`,"more.problems",staff||demo]].
filter(([,,shown3])=>shown3).map(([href,key])=>h("a",{href},t2(key)))}var link=(href,key,name)=>h("a",{href},name&&icon(
name),h("span",{class:"word"},t2(key)));function render(){text(document.getElementById("brand"),brand()),text(document.getElementById(
"skip"),t2("skip")),text(document.getElementById("foot"),foot());let elsewhere2=document.getElementById("more");attr(elsewhere2,
"aria-label",t2("more.nav")),elsewhere2.replaceChildren(...more()),attr(nav,"aria-label",t2("nav"));let user2=session.user();
nav.replaceChildren(...links(user2)),markCurrent();let other=Object.keys(languages).find(l=>l!==language()),switchLanguage=h(
"button",{type:"button",class:"quiet","data-do":"language",lang:other==="zh"?"zh-CN":other,onclick:()=>choose(other)},languages[other]),
phone=user2?user2.phone.replace(/^(.*)(....)(....)$/,"$1····$3"):"",held=account.contains(document.activeElement)?document.
activeElement.dataset.do:null;account.replaceChildren(h("output",{}),switchLanguage,...user2?[accountOf(phone),leave()]:
session.pending()?[]:[accountButton("login",()=>login())]),held&&account.querySelector(`[data-do="${held}"]`)?.focus(),show(
account,!0)}function start(options){({pages,missing,links,foot,account:openAccount,badge=()=>""}=options),use(options.texts),
dress(),keepFocusNear(),document.addEventListener("click",onClick),addEventListener("popstate",back),render(),open2(!1),
session.on(render),onLanguage(()=>{render(),open2(!1)})}var missing2=(home2,key)=>root2=>{root2.replaceChildren(h("header",{class:"lead"},h("h1",{tabindex:-1},t("missing.title")),
h("p",{},t("missing.why"))),h("div",{},h("a",{href:home2,class:"button primary"},t(key))))};var KEPT=10;function announce(sentence){if(!sentence)return;let live=document.getElementById("live");live.append(h("p",{},
sentence)),live.childElementCount>KEPT&&live.firstElementChild.remove()}function confirm(question,yes,explanation=""){return new Promise(resolve=>{let id2=newID("confirm"),why=explanation&&newID(
"why"),agreed=!1,agree=({detail:detail2})=>{detail2>1||(agreed=!0,dialog.close())},dialog=h("dialog",{class:"sheet","ari\
a-labelledby":id2,"aria-describedby":why||null,onclose:()=>{dialog.remove(),resolve(agreed)}},h("h2",{id:id2},question),
explanation?h("div",{id:why,class:"note"},explanation):null,h("div",{class:"actions"},h("button",{type:"button",class:"q\
uiet",onclick:()=>dialog.close()},t("back")),h("button",{type:"button",class:"primary",onclick:agree},yes)));document.body.
append(dialog),dialog.showModal()})}var elsewhere={clear(){},show(){}};function moreButton(name,label,work,out=elsewhere){let element=h("button",{type:"butt\
on",class:"quiet","data-do":name},label);return element.addEventListener("click",singleFlight(element,out,work)),{element,
update(visible,next){let held=document.activeElement===element;if(show(element,visible),!held||visible)return;let first=next(),
link4=first?.querySelector("a");first&&!link4&&attr(first,"tabindex",-1),(link4??first)?.focus()}}}var sentences=[[/^(\d+) active of (-?\d+)$/,"有效订单 $1，总库存 $2"],[/^no user exceeds the limit$/,"没有用户超出限购"],
[/^(-?\d+) left \+ (\d+) active = (-?\d+)$/,"未售 $1 + 有效订单 $2 = $3"],[/^(-?\d+) free, all of them for sale$/,
"未售 $1 份，均可购买"],[/^(\d+) active orders for (-?\d+) units$/,"有效订单 $1，超过总库存 $2"],[/^(\d+) users hold more active orders than allowed$/,
"$1 位用户超出限购"],[/^(\d+) users hold more active orders than allowed: (.+)$/,(_2,n,users)=>`${n} 位用户超出限购：${users.
replace(/user (\d+) has (\d+)/g,"用户 $1 有 $2 单").replaceAll(", ","，")}`],[/^the newest orders are in excess$/,"\
多出的是最新的订单"],[/^the sale does not exist$/,"活动不存在"],[/^an order took no unit \(.+\), or units were added without a stock change$/,
"有订单未扣库存（可能是最新的几单），或库存被增加而没有变更记录"],[/^an order did not return its unit \(.+\), or units were removed without a stock change$/,
"有订单未退回库存（可能是所列订单），或库存被减少而没有变更记录"],[/^(\d+) orders have a slot that does not match their status$/,
"$1 个订单的名额与状态不符"],[/^(-?\d+) units left \+ (\d+) active orders, but (-?\d+) units in total$/,"未售 $\
1 + 有效订单 $2，与总库存 $3 不符"],[/^(-?\d+) units are free, but only (-?\d+) can be bought$/,"未售 $1 份，仅 $2\
 份可购买"],[/^the database could not be read$/,"无法读取数据库"],[/^the orders are being counted$/,"正在统计订单"],
[/^ends before it begins$/,"尚未设定开始和结束时间"],[/^(\d+) sold of (\d+)$/,"售出 $1 / $2"],[/^(\d+) users with more than one$/,
"$1 位用户多于一单"],[/^(\d+) sold \+ (-?\d+) left = (-?\d+)$/,"售出 $1 + 剩余 $2 = $3"],[/^(\d+) answers differ from the buyer's orders$/,
"$1 个返回结果与订单不符"],[/^(-?\d+) left, (\d+) buyers answered sold_out$/,"剩余 $1，$2 位买家收到“已抢光”"],
[/^(\d+) IDs of (\d+) orders$/,"$2 个订单，$1 个编号"],[/^by its code$/,"凭核销码"],[/^without a code$/,"未验核销\
码"],[/^no payment was received$/,"未收到款项"],[/^not found$/,"找不到对应的订单"],[/^body: is not a payment notice in JSON$/,
"内容不是 JSON 格式的支付通知"],[/^provider_ref: (is required|must have .+)$/,"流水号缺失或无效"],[/^provider_ref: belongs to another payment$/,
"流水号属于另一笔支付"],[/^order_id: must be the id of an order$/,"订单号无效"],[/^amount: must be .+$/,"\
金额无效"],[/^amount: differs from (?:that|the earlier notice) of this payment$/,"金额与该笔支付不一致"],[
/^currency: must be an ISO 4217 currency code, such as CNY$/,"货币代码无效"],[/^status: must be succeeded, failed, refunded or disputed$/,
"状态无效"],[/^(\S+): the payment was not begun by this shop$/,"$1：不是本店发起的支付"],[/^(\S+): the order is (\w+)$/,
(_2,ref,status)=>`${ref}：订单状态为“${textOf(["status"],status)}”`],[/^(\S+): (refunded|disputed)$/,(_2,ref,status)=>`${ref}\
：${textOf(["payment"],status)}`],[/^(\S+): received ([\d.]+) (\w+) for an order of ([\d.]+) (\w+)$/,"$1：收到 $2 $3，订单金额为\
 $4 $5"],[/^the line of the waiting room was drawn at the start of this sale .+$/,"等候室已在开抢时抽签，不能用于更晚的场次，请新建活动。"],
[/^shop (\d+)$/,"店铺 $1"],[/^default$/,"默认"],[/^passes for (\S+)$/,"凭证有效期 $1"],[/^with challenge$/,"人机验\
证"],[/^opens (\S+)$/,(_2,at)=>`${stamp(at)} 开放`]],kinds={gate_cold:"活动进行中，但准入尚未加载；下一位买家或修复操作会加载",
gate_broken:"准入的键类型错误或不是数字，由其他程序写入",gate_differs:"准入与数据库不符：库存、订单或买家有出入",
queue_differs:"排队凭证与队列消息不符",stuck:"订单在队列中停留过久",dead_letters:"有死信待处理",
unpaid_not_closed:"超时未付的订单尚未关闭",refund_unfinished:"退款尚未完成"};function detailOf(detail2){
if(language()!=="zh")return[detail2,null];let parts=detail2.split("; ").map(part=>{let found=sentences.find(([pattern])=>pattern.
test(part));return found&&part.replace(...found)});return parts.includes(void 0)?[detail2,"en"]:[parts.join("；"),null]}
var violations=[[/^(\d+) active orders for (-?\d+) units/,(active,all2)=>["oversold",active-all2]],[/^(\d+) users hold more active orders/,
users=>["overLimit",users]],[/^(-?\d+) units left \+ (\d+) active orders, but (-?\d+) units/,(left2,active,all2)=>[left2+
active>all2?"tooMany":"tooFew",Math.abs(left2+active-all2)]],[/^(-?\d+) units are free, but only (-?\d+) can be bought/,
(free,left2)=>["unsold",free-left2]]];function violationOf({detail:detail2}){for(let[pattern,measure]of violations){let numbers=pattern.
exec(detail2)?.slice(1).map(Number);if(!numbers)continue;let[words2,n]=measure(...numbers);return t(`violation.${words2}`,
{n:number(n)})}return t("violation.other")}var findingOf=f=>language()==="zh"&&kinds[f.kind]?[kinds[f.kind],null]:detailOf(
f.detail),change=/(?:^|; )([a-z_]+): ("(?:[^"\\]|\\.)*"|[^;"]*) -> ("(?:[^"\\]|\\.)*"|[^;"]*)(?=; |$)/g,time=/^\d{4}-\d\d-\d\dT\S+$/;
function textOf(groups2,key){let group=groups2.find(g=>has(`${g}.${key}`));return group?t(`${group}.${key}`):key}function valueOf(value){
return value.startsWith('"')?value:time.test(value)?stamp(value):value.split(", ").map(part=>textOf(["audit.value","vouc\
her.entry","voucher"],detailOf(part)[0])).join(" · ")}function auditDetailOf({action,detail:detail2}){if(["change_stock",
"return_outside","close_notice","undo_redeem"].includes(action))return[detail2];let changes4=[...detail2.matchAll(change)],
rest=detail2.replace(change,"").replace(/^; /,"");return[...rest?[detailOf(rest)[0]]:[],...changes4.map(([,field2,was,is])=>t(
"audit.change",{field:textOf(["audit.field","voucher","shop","room"],field2),was:valueOf(was),is:valueOf(is)}))]}function detail(problem,beside2){if(["network","not_found"].includes(problem.code))return"";let[words2,lang]=detailOf(problem.
detail??"");return lang===null?words2:(problem.errors??[]).filter(e=>!beside2(e.field)&&has(`invalid.${e.field}`)).map(e=>t(
`invalid.${e.field}`)).join("")}function errorBox(){let sentence=h("p",{class:"error"}),note=h("p",{class:"note"}),code=h(
"p",{class:"reference"}),element=h("div",{class:"error-box",role:"alert",hidden:!0},sentence,note,code);return{element,clear:()=>show(
element,!1),show(problem,beside2=()=>!1){text(sentence,problem.open?`${explain(problem)} ${t("open.unknown")}`:explain(problem)),
text(note,detail(problem,beside2)),text(code,[problem.code,reference(problem)].filter(Boolean).join(" · ")),show(element,
!0)}}}var FIRST=1e3,MOST=15e3;function pauseAfter(problem,failures2){return problem.status===0||problem.status===429||problem.
status>=500?problem.retryAfter+backoff(failures2,FIRST,MOST):0}async function reading(out,read){for(let failures2=0;;failures2++)
try{let answer=await read();return failures2>0&&out.clear(),out.element.isConnected?answer:null}catch(problem){if(!problem.
code)throw problem;out.show(problem);let pause=pauseAfter(problem,failures2);if(pause>0&&await sleep(pause),pause===0||!out.
element.isConnected)return null}}async function poll(element,out,every,read){for(;element.isConnected;await sleep(every))
if(!document.hidden)try{await read(),out.clear()}catch(problem){if(!problem.code)throw problem;out.show(problem)}}async function confirmAnother(post,path,body2,describe){
let open3=post.open(path);return!open3||post.same(path,body2)||confirm(t("open.another",{open:describe(open3)}),t("open.\
do"))}function button({name,label,kind="quiet",about,out},work){let b=h("button",{type:"button",class:kind,"data-do":name,
"aria-describedby":about},label??t(`do.${name}`));return b.addEventListener("click",singleFlight(b,out,work)),b}function section(title,...children){
let id2=newID("section");return h("section",{class:"panel","aria-labelledby":id2},h("h2",{id:id2},title),...children)}function head(title,...more2){
return h("header",{class:"lead"},h("h1",{tabindex:-1},title),...more2)}var LONG=60;function factList(){let element=h("dl",
{class:"facts-list"}),shown3="";return{element,set(entries2){let given=entries2.filter(e=>e.value!=null&&e.value!==""&&e.
value!==!1),names2=JSON.stringify(given.map(e=>e.name));names2!==shown3&&element.replaceChildren(...given.map(e=>h("div",
{},h("dt",{},e.name),h("dd",{"data-fact":e.id})))),shown3=names2,given.forEach(({value},i)=>{let dd=element.children[i].
lastChild;attr(element.children[i],"class",typeof value=="string"&&value.length>LONG?"long":null),value instanceof Node?
dd.replaceChildren(value):text(dd,String(value))})}}}function facts(entries2){let list4=factList();return list4.set(entries2.
map(([name,value])=>({name,value}))),list4.element}var finder=(title,form2)=>h("details",{class:"panel fold",open:matchMedia(
"(min-width: 48rem)").matches},h("summary",{},h("h2",{},title)),form2),chip=(word,kind)=>h("span",{class:"chip","data-ki\
nd":kind},word),setChip=(el,word,kind)=>{text(el,word),attr(el,"data-kind",kind)};function keepFocus(element,render3){let held=element.
contains(document.activeElement)&&document.activeElement.getAttribute("href");render3(),!(!held||element.contains(document.
activeElement))&&[...element.querySelectorAll("a")].find(a=>a.getAttribute("href")===held)?.focus({preventScroll:!0})}function table(caption,columns3,{
cards=!1}={}){let body2=h("tbody",{role:"rowgroup"}),element=h("div",{class:cards?"scroll cards":"scroll",tabindex:0,role:"\
group","aria-label":caption},h("table",{role:"table"},h("caption",{class:"sr"},caption),h("thead",{role:"rowgroup"},h("t\
r",{role:"row"},columns3.map(c=>h("th",{scope:"col",role:"columnheader",class:c.number&&"number"},c.label)))),body2)),row=item=>h(
"tr",{role:"row"},columns3.map((c,i)=>h(i===0?"th":"td",{scope:i===0&&"row",role:i===0?"rowheader":"cell",class:c.number&&
"number","data-label":c.label},c.cell(item))));return{element,set(rows){keepFocus(body2,()=>body2.replaceChildren(...rows.
map(row))),show(element,rows.length>0)}}}var pages2=(path,params={})=>cursor=>getMine(`${path}?${new URLSearchParams({limit:50,
...params,...cursor&&{cursor}})}`);function listing({caption,columns:columns3,empty:empty2,read,refused:refused2=()=>!1}){
let out=errorBox(),rows=table(caption,columns3,{cards:!0}),count=h("p",{class:"note","data-count":!0}),nothing=h("p",{class:"\
empty"},t("loading")),more2=moreButton("more",t("more"),()=>page2(!1),out),items=[],cursor=null,requests=0,failures2=0;async function page2(first){
let turn=++requests,known=items.length,wanted=first?known:known+1,found=first?[]:items,next=first?null:cursor;do{let answer=await read(
next);if(turn!==requests)return;found=[...found,...answer.items],next=answer.next_cursor}while(next!==null&&found.length<
wanted);items=found,cursor=next,rows.set(items),text(count,items.length===0?"":t(cursor===null?"list.all":"list.more",{n:number(
items.length)})),show(count,items.length>0),text(nothing,empty2),show(nothing,items.length===0),more2.update(cursor!==null,
()=>first?null:rows.element.querySelectorAll("tbody tr")[Math.min(known,items.length-1)])}async function load(){attr(element,
"aria-busy","true");let turn=requests+1;try{await page2(!0),failures2=0,turn===requests&&out.clear()}catch(problem){if(!problem.
code)throw problem;if(turn!==requests)return;show(nothing,!1),refused2(problem)||out.show(problem);let pause=pauseAfter(
problem,failures2++);pause>0&&setTimeout(()=>element.isConnected&&turn===requests&&load(),pause)}finally{attr(element,"a\
ria-busy",null)}}rows.set([]),more2.update(!1),show(count,!1);let element=h("div",{class:"listing"},out.element,count,rows.
element,nothing,h("div",{class:"center"},more2.element));return{element,refresh:()=>rows.set(items),load}}var changing=(status,load)=>async(answer,sentence)=>{
status.clear();try{await answer,status.show(sentence)}finally{await load()}};function worklist(root2,{name,path,params,filter=null,
columns:columns3,actions:actions4}){let out=errorBox(),status=statusLine(),tools={out,post:intents(),change:changing(status,
()=>all2.load())},all2=listing({caption:t(`${name}.title`),empty:t(`${name}.none`),read:pages2(path,params),columns:[...columns3,
...session.may("operate")?[{label:t("list.actions"),cell:entry=>actions4(entry,tools)}]:[]]});root2.replaceChildren(head(
t(`${name}.title`),h("p",{},t(`${name}.lead`))),filter?finder(t(`${name}.find`),filter.element):"",h("div",{class:"bar"},
button({name:"refresh",out},()=>all2.load())),status.element,out.element,all2.element),all2.load()}function statusLine(){
let element=h("p",{class:"status-line"});return show(element,!1),{element,clear:()=>show(element,!1),show(sentence){text(
element,sentence),show(element,!0),announce(sentence)}}}function account2(){let id2=newID("account"),out=errorBox(),{phone,role}=session.user(),leave2=button({name:"logout",kind:"\
primary",label:t("logout"),out},async()=>{await session.logout(),dialog.close()}),dialog=h("dialog",{class:"sheet","aria\
-labelledby":id2,onclose:()=>dialog.remove()},h("h2",{id:id2},phone),h("p",{},t(`role.${role}`)),h("a",{href:"/",class:"\
link"},t("access.shop")),out.element,h("div",{class:"actions"},h("button",{type:"button",class:"quiet",onclick:()=>dialog.
close()},t("back")),leave2));document.body.append(dialog),dialog.showModal()}var sales=new Map;function titleOf(id2,known){let sale=sales.get(id2);return sale||(sale={title:""},sales.set(id2,sale),
sale.read=getMine(`/vouchers/${id2}`).then(v=>{sale.title=v.title},problem=>{if(!problem.code)throw problem;problem.code!==
"not_found"&&sales.delete(id2)})),sale.title||sale.read.then(()=>sale.title&&known()),sale.title||t("sale.untitled",{id:id2})}
function saleLink(id2,title=""){title&&sales.set(id2,{title});let link4=h("a",{href:`/console/sales/${id2}`}),show2=()=>text(
link4,titleOf(id2,show2));return show2(),named(link4,id2)}var named=(name,id2)=>h("span",{class:"named"},name," ",h("sma\
ll",{},id2));var POLL=5e3,RETRY=2e3,STALE=2,UNCHECKED=12e4,NAMED=3,changes3=topic(),started=performance.now(),alerts=null,failures=0,
answeredAt=new Date,wake=new AbortController,render2=()=>{},violated=voucherID=>alerts?.violations.some(v=>v.voucher_id===
voucherID)??!1,onChange=changes3.on,link2=(href,words2)=>h("a",{href},words2);function sentences2(){let all2=[];if(failures>=
STALE&&all2.push(t("alerts.stale",{at:clockTime(answeredAt)})),!alerts)return all2;let{violations:violations2,checked_at:checkedAt,
dead_letters:letters,failing_events:events2,failing_refunds:refunds2,unread_notices:notices}=alerts;for(let v of violations2.
slice(0,NAMED))all2.push(link2(`/console/sales/${v.voucher_id}`,t("alerts.violation",{title:titleOf(v.voucher_id,render2),
what:violationOf(v)})));violations2.length>NAMED&&all2.push(link2("/console/reconcile",t("alerts.more",{n:number(violations2.
length-NAMED)}))),letters>0&&all2.push(link2("/console/dead-letters",t("alerts.deadLetters",{n:number(letters)})));for(let r of refunds2.
slice(0,NAMED))all2.push(link2(`/console/orders/${r.order_id}`,t("alerts.refund",{id:r.order_id,n:number(r.tries),error:r.
error})));return refunds2.length>NAMED&&all2.push(link2("/console/orders?status=refunding",t("alerts.moreRefunds",{n:number(
refunds2.length-NAMED)}))),notices>0&&all2.push(link2("/console/notices",t("alerts.notices",{n:number(notices)}))),events2>
0&&all2.push(link2("/console/events",t("alerts.events",{n:number(events2)}))),checkedAt&&now()-Date.parse(checkedAt)>UNCHECKED&&
all2.push(t("alerts.unchecked",{at:stamp(checkedAt)})),!checkedAt&&performance.now()-started>UNCHECKED&&all2.push(t("ale\
rts.neverChecked")),all2}function start2(){let list4=h("ul",{}),banner=h("div",{class:"alerts",role:"status","data-alert\
s":!0},list4);show(banner,!1),document.querySelector("header.top").after(banner);let shown3="";render2=()=>{let all2=sentences2(),
words2=JSON.stringify(all2.map(s=>s.href?[s.href,s.textContent]:s));show(banner,all2.length>0),words2!==shown3&&(keepFocus(
list4,()=>list4.replaceChildren(...all2.map(s=>h("li",{},s)))),shown3=words2,changes3.emit())};async function read(){if(!(document.
hidden||!session.may("read"))){try{alerts=await getMine("/admin/alerts"),[failures,answeredAt]=[0,new Date]}catch(problem){
if(!problem.code)throw problem;(problem.code==="network"||problem.status>=500)&&failures++}render2()}}async function poll2(){
for(;;)await read(),wake=new AbortController,await sleep(failures?RETRY:POLL,wake.signal)}session.on(user2=>{user2||([alerts,
failures]=[null,0]),render2(),wake.abort()}),document.addEventListener("visibilitychange",()=>wake.abort()),onLanguage(render2),
poll2()}var TYPES=["image/jpeg","image/png","image/webp","image/gif"],MAX_MB=10,SIDE=1280,SMALL=9e5,TIMEOUT3=6e4,SIDEWAYS={"imag\
e/png":"iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAAAAADRSSBWAAAAGmVYSWZNTQAqAAAACAABARIAAwAAAAEABgAAAAAAANZnS2kAAAALSURBVHjaY2Bg\
AAAAAwABKwlNhAAAAABJRU5ErkJggg==","image/webp":"UklGRk4AAABXRUJQVlA4WAoAAAAIAAAAAQAAAAAAVlA4TA4AAAAvAQAAAAcQEf0PRET/A0VY\
SUYaAAAATU0AKgAAAAgAAQESAAMAAAABAAYAAAAAAAA="};async function turns(type){if(!SIDEWAYS[type])return!0;let file=Uint8Array.
from(atob(SIDEWAYS[type]),c=>c.charCodeAt(0));return(await createImageBitmap(new Blob([file],{type}))).width===1}async function reduced(file){
try{let bitmap=await createImageBitmap(file),scale=Math.min(1,SIDE/Math.max(bitmap.width,bitmap.height)),copy2=file;if(scale<
1||file.size>SMALL){copy2=await drawn(bitmap,scale);let exif=await turns(file.type)?null:exifOf(await file.arrayBuffer());
copy2&&exif&&(copy2=withExif(copy2,exif))}return bitmap.close(),copy2??file}catch{return file}}function exifOf(buffer){let view=new DataView(
buffer),png=view.getUint32(0)===2303741511;for(let at=png?8:12;at+12<=buffer.byteLength;){let kind=view.getUint32(png?at+
4:at),length=png?view.getUint32(at):view.getUint32(at+4,!0);if(kind===1700284774||kind===1163413830){let prefix=view.getUint32(
at+8)===1165519206?6:0;return buffer.slice(at+8+prefix,at+8+length)}at+=png?12+length:8+length+length%2}return null}function withExif(file,exif){
let length=8+exif.byteLength;if(length>65535)return file;let head2=[255,225,length>>8,length&255,69,120,105,102,0,0];return new Blob(
[file.slice(0,2),new Uint8Array(head2),exif,file.slice(2)])}async function drawn(bitmap,scale){let[width,height]=[bitmap.
width,bitmap.height].map(side=>Math.max(1,Math.round(side*scale))),canvas=h("canvas",{width,height}),brush=canvas.getContext(
"2d");brush.fillStyle="#fff",brush.fillRect(0,0,width,height),brush.imageSmoothingQuality="high",brush.drawImage(bitmap,
0,0,width,height);for(let quality of[.92,.8,.6,.3]){let copy2=await new Promise(resolve=>canvas.toBlob(resolve,"image/jp\
eg",quality));if(copy2?.size<=SMALL)return copy2}}function picture(input,showError){let file=h("input",{type:"file",class:"\
sr",id:input.id,accept:TYPES.join(),"aria-describedby":input.getAttribute("aria-describedby"),onchange:onChoose}),image=h(
"img",{alt:t("picture.alt"),class:"image"}),progress=h("progress",{"aria-label":t("picture.uploading")}),choose2=h("labe\
l",{class:"button quiet",for:input.id}),remove=h("button",{type:"button",class:"link","data-do":"remove-picture",onclick:onRemove},
t("picture.remove")),control={element:h("div",{class:"picture"},input,file,image,progress,h("div",{class:"row-actions"},
choose2,remove)),focusable:file,uploading:!1,refresh},turn=0;for(let name of["id","aria-describedby"])attr(input,name,null);
show(input,!1);function refresh(){input.dispatchEvent(new Event("input",{bubbles:!0})),attr(image,"src",input.value===""?
null:`${BASE}/images/${input.value}`),show(image,input.value),show(remove,input.value),show(progress,control.uploading),
text(choose2,t(input.value?"picture.replace":"picture.upload"))}function onRemove(){turn++,control.uploading=!1,input.value=
"",showError(""),refresh(),file.focus()}async function onChoose(){let[chosen]=file.files;if(file.value="",!chosen)return;
if(!TYPES.includes(chosen.type))return showError(t("picture.type",{name:chosen.name}));let mine=++turn;showError(""),control.
uploading=!0,refresh(),announce(t("picture.uploading"));try{let small=await reduced(chosen);if(mine!==turn)return;if(small.
size>MAX_MB<<20)return showError(t("picture.size",{name:chosen.name,size:number(Math.ceil(small.size/2**20))}));let body2=new FormData;
body2.append("image",small,"picture");let{id:id2}=await postMine("/admin/images",{body:body2,timeout:TIMEOUT3});if(mine!==
turn)return;input.value=id2,announce(t("picture.uploaded"))}catch(problem){if(!problem.code)throw problem;mine===turn&&showError(
problem.errors.length>0?t("picture.refused",{name:chosen.name}):explain(problem))}finally{mine===turn&&(control.uploading=
!1),refresh()}}return refresh(),control}var InvalidInput=class extends Error{},reject=(key,values)=>{throw new InvalidInput(t(key,values))},plain=input=>input.normalize(
"NFKC").replace(/\u2212/g,"-").replace(/[\s\p{Default_Ignorable_Code_Point}\p{Cf}]/gu,"");function whole(input,{min:min2,
max:max2}){/^[+-]?\d{1,15}$/.test(input)||reject("form.whole");let n=Number(input);return(n<min2||n>max2)&&reject("form.\
between",{min:number(min2),max:number(max2)}),n}function words(input,{max:max2}){return[...input].length>max2&&reject("f\
orm.long",{max:number(max2)}),input}function id(input){return/^[1-9]\d{0,18}$/.test(input)||reject("form.id"),input}function currency(input){
let code=input.toUpperCase();return/^[A-Z]{3}$/.test(code)||reject("form.currency"),code}var MAX_AMOUNT=1e11;function amount(input,{
currency:currency2}){let places=digits(currency2()),[,units2,point,comma]=/^(\d{1,15})(?:\.(\d+)|,(\d{1,2}))?$/.exec(input)??
reject("form.amount"),fraction=point??comma??"";fraction.length>places&&reject("form.decimals",{places});let n=Number(units2+
fraction.padEnd(places,"0"));return n>MAX_AMOUNT&&reject("form.between",{min:number(0),max:number(MAX_AMOUNT/10**places)}),
n}function formatAmount(n,currency2){let places=digits(currency2),all2=String(n).padStart(places+1,"0");return places===
0?all2:`${all2.slice(0,-places)}.${all2.slice(-places)}`}function time2(input){let at=new Date(input);return(Number.isNaN(
at.getTime())||at.getFullYear()<2002||at.getFullYear()>9998)&&reject("form.time"),localTime(at).startsWith(input.slice(0,
16))||reject("form.noTime",{zone:zone(at)}),at.toISOString()}function localTime(at){let d=new Date(at),two=n=>String(n).
padStart(2,"0");return`${d.getFullYear()}-${two(d.getMonth()+1)}-${two(d.getDate())}T${two(d.getHours())}:${two(d.getMinutes())}\
:${two(d.getSeconds())}`}function minutes(input,{min:min2,max:max2}){let[,m,s="0"]=/^(\d{1,6})(?::([0-5]\d))?$/.exec(input)??
reject("form.minutes"),seconds=Number(m)*60+Number(s);return(seconds<min2||seconds>max2)&&reject("form.between",{min:formatMinutes(
min2),max:formatMinutes(max2)}),seconds}function formatMinutes(seconds){let rest=seconds%60;return Math.floor(seconds/60)+
(rest===0?"":`:${String(rest).padStart(2,"0")}`)}function day2(input){let year2=Number(input.slice(0,4));return(!/^\d{4}-\d{2}-\d{2}$/.
test(input)||year2<2003||year2>9997)&&reject("form.day"),input}var kinds2={text:{read:words,props:{type:"text"}},area:{read:words,
tag:"textarea",props:{rows:3}},whole:{read:whole,clean:plain,props:{type:"text",inputmode:"numeric"}},id:{read:id,clean:plain,
props:{type:"text",inputmode:"numeric"}},minutes:{read:minutes,clean:input=>plain(input).replace("：",":"),props:{type:"\
text",inputmode:"text"}},pasted:{read:words,clean:plain,props:{type:"text"}},amount:{read:amount,clean:input=>plain(input).
replace("。","."),props:{type:"text",inputmode:"decimal"}},time:{read:time2,props:{type:"datetime-local",step:1}},day:{
read:day2,props:{type:"date"}},currency:{read:currency,clean:plain,props:{type:"text"}},picture:{read:input=>input,props:{
type:"text"},control:picture},choice:{read:input=>input,tag:"select",props:{}}};function field(def){let ids3={input:newID(
def.name),note:newID("note"),error:newID("error")},kind=kinds2[def.kind],options=(def.options??[]).map(([value,label])=>h(
"option",{value},label)),input=h(kind.tag??"input",{id:ids3.input,name:def.name,autocomplete:def.autocomplete??"off","ar\
ia-describedby":`${ids3.note} ${ids3.error}`,"aria-required":def.required&&"true",...kind.props},...options);input.value=
def.value??"";let error=h("p",{id:ids3.error,class:"error",role:kind.control&&"alert"}),showError=sentence=>{text(error,
sentence),attr(focusable,"aria-invalid",sentence?"true":null)},control=kind.control?.(input,showError),focusable=control?.
focusable??input,note=h("p",{id:ids3.note,class:"note"}),element=h("div",{class:"field","data-field":def.name,"data-kind":def.
kind},h("label",{for:ids3.input},def.label),control?.element??input,note,error),explain2=()=>{text(note,(typeof def.note==
"function"?def.note(input.value):def.note)||""),show(note,note.textContent)};explain2();let initial=input.value,asRead=initial;
function parse(){control?.uploading&&reject("picture.wait");let raw=kind.clean?.(input.value)??input.value.trim();return raw!==
""?kind.read(raw,def):(def.required&&reject("form.required"),def.empty)}return{def,element,input,showError,parse,focus(){
let fold=element.closest("details");fold&&(fold.open=!0),focusable.focus()},refresh(){control?.refresh(),explain2()},changed:()=>input.
value!==initial,markSaved(){initial=asRead},reset(value){let scratch=input.cloneNode(!0);scratch.value=value;let normalized=scratch.
value;input.value===initial&&initial!==normalized&&(input.value=normalized),initial=normalized},read(){return asRead=input.
value,parse()}}}var forms=new Map;function forget(){forms=new Map}addEventListener("beforeunload",event=>{[...forms.values()].
some(form2=>form2.asks&&form2.edited().length>0)&&event.preventDefault()});function form({name,fields:fields3,label,kind="\
primary",check,work,changes:changes4=!1,children=[],status=null,groups:groups2=null,asks=!1}){let all2=new Map(fields3.map(
def=>[def.name,field(def)])),out=errorBox(),send2=h("button",{type:"submit",class:kind,"data-do":name,onclick:once},label),
element=h("form",{class:"form","data-form":name,novalidate:!0},...(groups2??[{}]).map(group),...children,status?.element,
out.element,h("div",{class:"actions"},send2));function group(g){let own=h("div",{class:"fields"},...[...all2.values()].filter(
f=>!g.name||f.def.group===g.name).map(f=>f.element));return g.name?g.folded?h("details",{"data-group":g.name},h("summary",
{},g.title),own):h("fieldset",{"data-group":g.name},h("legend",{},g.title),own):own}function showFields(){for(let f of all2.
values())f.def.shown&&show(f.element,f.def.shown(api.value)),f.refresh()}function showErrors(errors){let first=null;for(let[
field2,f]of all2)f.showError(errors[field2]??""),errors[field2]&&(first??=f);return first?.focus(),first!==null}function read(){
let values={},complete={},errors={};for(let[field2,f]of all2)if(!f.element.hidden)try{let value=f.read();if(value===void 0)
continue;complete[field2]=value,(!changes4||f.changed())&&(values[field2]=value)}catch(err){if(!(err instanceof InvalidInput))
throw err;errors[field2]=err.message}return showErrors({...check?.(complete,api),...errors})?null:values}element.addEventListener(
"submit",singleFlight(send2,out,async()=>{status?.clear();let values=read();if(values!==null)try{await work(values,api)}catch(problem){
let errors=Object.fromEntries((problem.errors??[]).map(e=>[e.field,has(`invalid.${e.field}`)?t(`invalid.${e.field}`):t("\
form.refused")]));if(!showErrors(errors))throw problem;out.show(problem,field2=>all2.has(field2))}}));let api={element,out,
asks,value:field2=>all2.get(field2)?.input.value,parsed(field2){try{return all2.get(field2)?.parse()}catch(err){if(!(err instanceof
InvalidInput))throw err}},edited:()=>[...all2].filter(([,f])=>f.changed()).map(([field2,f])=>[field2,f.input.value]),write(entries2){
for(let[field2,value]of entries2)all2.has(field2)&&(all2.get(field2).input.value=value);showFields()},clear(){for(let f of all2.
values())f.input.value=f.def.value??"";showFields()},reset(values){for(let[field2,value]of Object.entries(values))all2.get(
field2)?.reset(value);showFields()},markSaved(names2){for(let field2 of names2)all2.get(field2).markSaved()},showErrors,
focus(field2){return all2.get(field2)?.focus(),all2.has(field2)}};element.addEventListener("change",showFields);let key=`${session.
user()?.id} ${name}`;return api.write(forms.get(key)?.edited()??[]),forms.set(key,api),api}function save(content,name){let url=URL.createObjectURL(content);h("a",{href:url,download:name}).click(),setTimeout(()=>URL.
revokeObjectURL(url),6e4)}var TIMEOUT4=3e4;function region(){let{timeZone:name}=new Intl.DateTimeFormat().resolvedOptions(),timeZone=name==="Etc/U\
nknown"?"UTC":name,decimal=new Intl.NumberFormat(navigator.language).formatToParts(1.5).find(p=>p.type==="decimal").value;
return{lang:language(),ids:"text",...timeZone&&{tz:timeZone},...decimal===","&&{separator:";",decimal}}}function download({
path,query:query2={},file,out}){let label=t(`files.${file}${query2.voucher_id?"OfSale":""}`);return button({name:`downlo\
ad-${file}`,label,out},async()=>{let response=await asUser("GET",`${path}?${new URLSearchParams({...query2,...region()})}`,
{timeout:TIMEOUT4,stream:!0}),blob=await response.blob().catch(err=>{throw new Problem({code:"network",detail:String(err)})});
save(blob,/filename="([^"]+)"/.exec(response.headers.get("Content-Disposition"))[1])})}var ids2=["voucher_id","order_id","actor_id"],actors=["admin","buyer","provider","system"],actions=["create_voucher","ch\
ange_voucher","delete_voucher","change_stock","change_room","revoke_passes","create_shop","change_shop","pay","cancel","\
expire","redeem","undo_redeem","refund","refunded","dispute","return_outside","return_money","money_returned","close_not\
ice","replay_dead_letter","discard_dead_letter"],actorOf=(e,more2="")=>h("span",{},t(`actor.${e.actor}`),more2,e.actor_id?
[" ",named(e.actor_phone??"",e.actor_id)]:null),columns=()=>[{label:t("audit.at"),cell:e=>stamp(e.at)},{label:t("audit.a\
ctor"),cell:e=>actorOf(e)},{label:t("audit.find.action"),cell:e=>has(`action.${e.action}`)?t(`action.${e.action}`):e.action},
{label:t("sale.title"),cell:e=>e.voucher_id?saleLink(e.voucher_id):"–"},{label:t("orders.one"),cell:e=>e.order_id?h("a",
{href:`/console/orders/${e.order_id}`},e.order_id):"–"},{label:t("audit.detail"),cell:e=>h("div",{},auditDetailOf(e).map(
line=>h("div",{},line)))}],requestColumns=()=>[{label:t("audit.at"),cell:r=>stamp(r.at)},{label:t("audit.actor"),cell:r=>actorOf(
r,r.role?` · ${t(`role.${r.role}`)}`:"")},{label:t("audit.request"),cell:r=>h("code",{},`${r.method} ${r.route.replace(
"/api/v1","")}`)},{label:t("audit.find.target"),cell:r=>r.target??"–"},{label:t("audit.status"),cell:r=>r.status??t("a\
udit.unknown")},{label:t("audit.network"),cell:r=>r.network??"–"}],entries=filter=>listing({caption:t("audit.title"),empty:t(
"audit.none"),columns:filter.kind==="request"?requestColumns():columns(),read:pages2("/admin/audit",filter)});function mount(root2){
let query2=new URLSearchParams(location.search),given=name=>query2.get(name)??"",kind=given("kind")==="request"?"request":
"change",actor=query2.has("actor")?given("actor"):[...ids2,"action"].some(given)?"":"admin",options=(group,names3,any)=>[
...any?[["",t(any)]]:[],...names3.map(name=>[name,t(`${group}.${name}`)])],inKind=of=>value=>value("kind")===of,f=form({
name:"filter",label:t("audit.show"),kind:"quiet",fields:[{name:"kind",kind:"choice",options:options("audit.kind",["chang\
e","request"]),value:kind},{name:"actor",kind:"choice",options:options("audit.by",actors,"audit.by.any"),value:actor,empty:"",
shown:inKind("change")},{name:"action",kind:"choice",options:options("action",actions,"orders.any"),value:given("action"),
shown:inKind("change")},{name:"actor_id",kind:"id",value:given("actor_id")},...["voucher_id","order_id"].map(name=>({name,
kind:"id",value:given(name),shown:inKind("change")})),{name:"target",kind:"text",max:64,value:given("target"),shown:inKind(
"request")}].map(field2=>({label:t(`audit.find.${field2.name}`),...field2})),work:(values,own)=>{query2.has("actor")||own.
edited().some(([name])=>name==="actor")||delete values.actor,go(`/console/audit?${new URLSearchParams(values)}`)}}),names2=kind===
"change"?[...ids2,"action"]:["actor_id","target"],filter=Object.fromEntries(names2.filter(given).map(name=>[name,given(name)])),
log=entries({kind,...filter,...kind==="change"&&actor&&{actor}}),out=errorBox(),voucher=kind==="change"?given("voucher_i\
d"):"",file={path:"/admin/audit.csv",query:{kind,...voucher&&{voucher_id:voucher}}};root2.replaceChildren(head(t("audit.\
title"),h("p",{},t("audit.lead"))),finder(t("audit.find"),f.element),h("div",{class:"bar"},download({...file,file:kind===
"change"?"audit":"requests",out})),out.element,log.element),log.load()}var mount2=root2=>worklist(root2,{name:"deadLetters",path:"/admin/dead-letters",actions:actions2,columns:[{label:t("dead\
Letters.buried_at"),cell:l=>stamp(l.buried_at)},{label:t("orders.one"),cell:l=>l.order_id?h("a",{href:`/console/orders/${l.
order_id}?user_id=${l.user_id}`},l.order_id):"–"},{label:t("sale.title"),cell:l=>l.voucher_id?saleLink(l.voucher_id):"\
–"},{label:t("deadLetters.user_id"),cell:l=>l.user_id??"–"},{label:t("deadLetters.reason"),cell:l=>l.reason},{label:t(
"events.tries"),number:!0,cell:l=>l.tries}]});function actions2(letter,{out,post,change:change3}){let act=name=>button({
name,out,label:t(`deadLetters.${name}`)},async()=>{await confirm(t(`deadLetters.sure.${name}`,{id:letter.order_id??letter.
id}),t(`deadLetters.${name}`))&&await change3(post(`/admin/dead-letters/${encodeURIComponent(letter.id)}/${name}`),t(`de\
adLetters.done.${name}`))});return h("div",{class:"row-actions","data-letter":letter.id},letter.order_id?act("replay"):null,
act("discard"))}var fields=[{name:"name",required:!0,max:128},{name:"area",max:128},{name:"address",max:255},{name:"open_hours",max:32}],
fieldsOf=shop2=>fields.map(f=>({kind:"text",empty:"",label:t(`shop.${f.name}`),value:shop2?.[f.name],...f}));async function all(){
let found=[];for(let cursor="";cursor!==null;){let page2=await get(`/shops?${new URLSearchParams({limit:100,...cursor&&{
cursor}})}`);found.push(...page2.items),cursor=page2.next_cursor}return found}function list(root2){let operates=session.
may("operate"),shops=listing({caption:t("shops.title"),empty:t("shops.none"),columns:[{label:t("shop.name"),cell:s=>operates?
h("a",{href:`/console/shops/${s.id}`},s.name):s.name},...["area","address","open_hours"].map(name=>({label:t(`shop.${name}`),
cell:s=>s[name]||"–"})),{label:t("shop.id"),number:!0,cell:s=>s.id}],read:pages2("/shops")});root2.replaceChildren(...[
head(t("shops.title"),h("p",{},t("shops.lead"))),operates&&section(t("shops.new"),make(shops.load)),shops.element].filter(
Boolean)),shops.load()}function make(created){let post=intents({lasting:!0}),status=statusLine(),f=form({name:"shop",label:t(
"shops.create"),fields:fieldsOf(null),status,asks:!0,work:async values=>{if(!await confirmAnother(post,"/admin/shops",values,
open3=>open3.name))return;let shop2=await post("/admin/shops",values);f.clear(),status.show(t("shops.created",{name:shop2.
name})),await created()}});return f.element}function one(root2,id2){let out=errorBox(),status=statusLine(),title=h("h1",
{tabindex:-1},t("voucher.shop_id")),place=h("div",{});root2.replaceChildren(h("header",{class:"lead"},title,h("a",{href:"\
/console/shops",class:"link"},t("shops.back"))),out.element,place),reading(out,()=>get(`/shops/${id2}`)).then(shop2=>{if(!shop2)
return;text(title,shop2.name);let f=form({name:"shop",label:t("sale.save"),fields:fieldsOf(shop2),changes:!0,asks:!0,status,
work:async values=>{if(Object.keys(values).length===0)return status.show(t("sale.same"));let changed=await patchMine(`/a\
dmin/shops/${id2}`,{body:values});f.markSaved(Object.keys(values)),text(title,changed.name),status.show(t("sale.saved"))}});
place.replaceChildren(section(t("shops.change"),f.element))})}function preview(form2,shops,{currency:currency2,stock:stock2}){let image=h("img",{alt:"",class:"image"}),blank=h("div",
{class:"image blank","aria-hidden":"true"}),shop2=h("p",{class:"sub"}),title=h("p",{class:"title"}),sub=h("p",{class:"su\
b"}),price=h("strong",{}),worth=h("s",{}),off2=h("span",{class:"off"}),units2=h("span",{class:"sub"}),starts=h("p",{class:"\
sub"}),element=section(t("sale.preview"),image,blank,shop2,title,sub,h("p",{class:"price"},price," ",worth," ",off2),units2,
starts);attr(element,"data-preview",!0),attr(element,"aria-live","off");function update(){let id2=form2.value("image_id");
attr(image,"src",id2?`${BASE}/images/${id2}`:null),show(image,id2),show(blank,!id2);let at=shops.find(s=>s.id===form2.value(
"shop_id"))?.name??"";text(shop2,at),text(blank,[...at||form2.value("title")||"…"][0]),text(title,form2.value("title")||
t("preview.untitled")),text(sub,form2.value("sub_title"));let pay=form2.parsed("pay_value"),value=form2.parsed("actual_v\
alue")??0;text(price,pay===void 0?"–":money(pay,currency2())),text(worth,value>0?money(value,currency2()):""),text(off2,
discount(pay,value)),show(off2,off2.textContent),text(units2,stock2()>0?t("preview.stock",{n:number(stock2())}):"");let begin=Date.
parse(form2.value("begin_at"));text(starts,Number.isNaN(begin)?"":t("preview.starts",{at:stamp(begin)}))}for(let event of[
"input","change"])form2.element.addEventListener(event,update);return update(),{element,update}}var beside=(main,aside)=>h(
"div",{class:"beside"},main,h("aside",{},aside));var MAX_RATE=1e4,MAX_MESSAGE=255,figures=["lobby","waiting","present","admitted","outstanding","used","left","rate"];function room(change3){
let out=errorBox(),status=statusLine(),state=chip(""),list4=factList(),entry={};async function changed(body2,sentence){status.
clear(),await change3(body2),status.show(sentence)}let pause=button({name:"pause",label:"",out},()=>entry.paused?changed(
{paused:!1},t("room.resumed")):changed({paused:!0},t("room.stopped"))),rate=form({name:"rate",label:t("room.setRate"),kind:"\
quiet",fields:[{name:"rate",kind:"whole",label:t("room.rate"),required:!0,min:1,max:MAX_RATE}],work:values=>changed(values,
t("room.rateSet",{n:number(values.rate)}))}),message=form({name:"message",label:t("room.showMessage"),kind:"quiet",fields:[
{name:"message",kind:"text",label:t("room.message"),note:t("room.messageNote"),max:MAX_MESSAGE,empty:""}],work:values=>changed(
values,t(values.message?"room.messageShown":"room.messageRemoved"))}),operates=session.may("operate"),element=section(t(
"room.title"),h("div",{class:"head"},state,operates?pause:null),list4.element,out.element,status.element,operates?h("div",
{class:"forms"},rate.element,message.element):null);return attr(element,"data-room",!0),show(element,!1),{element,render(v){
entry=v.entry??{},show(element,entry.mode==="room"),entry.mode==="room"&&(setChip(state,t(entry.paused?"room.isPaused":"\
room.isOpen"),entry.paused?"bad":"good"),text(pause,t(entry.paused?"room.resume":"room.pause")),rate.reset({rate:String(
entry.rate)}),message.reset({message:entry.message??""}))},showFigures(room2){list4.set(figures.map(id2=>({id:`room.${id2}`,
name:t(`room.${id2}`),value:room2&&number(room2[id2])})))}}}var MAX_UNITS=1e9,LOBBY=6e5,PASS_TTL={pass:10,room:120},RATE=100,NO_SHOP="0",groups=()=>["what","price","when","fairness",
"advanced"].map(name=>({name,title:t(`group.${name}`),folded:name==="advanced"})),soon=hours=>Math.floor(now()/6e4)*6e4+
hours*36e5;function fields2(v,shops,currency2){let required=v!==null&&v.status!=="draft",sale=!v||v.type==="seckill",at=hours=>localTime(
soon(hours)),note=value=>t("voucher.zone",{zone:zone(Number.isNaN(Date.parse(value))?void 0:new Date(value))}),withPass=value=>value(
"entry.mode")!=="open",withRoom=value=>value("entry.mode")==="room",all2=[{group:"what",name:"title",kind:"text",required:!0,
max:255},{group:"what",name:"sub_title",kind:"text",max:255,empty:""},{group:"what",name:"shop_id",kind:"choice",required,
options:shopOptions(v,shops),note:shops.length===0&&t("voucher.noShop")},{group:"what",name:"image_id",kind:"picture",note:t(
"voucher.image_idNote"),empty:v?"":void 0},{group:"what",name:"rules",kind:"area",max:1024,empty:""},{group:"price",name:"\
pay_value",kind:"amount",required,currency:currency2},{group:"price",name:"actual_value",kind:"amount",required,currency:currency2,
note:t("voucher.faceValueNote")},!v&&{group:"price",name:"currency",kind:"currency",required:!0,value:"CNY",note:t("vouc\
her.currencyNote")},!v&&{group:"price",name:"stock",kind:"whole",min:0,max:MAX_UNITS},sale&&{group:"when",name:"begin_at",
kind:"time",required,note,value:at(1)},sale&&{group:"when",name:"end_at",kind:"time",required,note,value:at(3)},sale&&{group:"\
when",name:"pay_timeout",kind:"minutes",empty:v?null:void 0,min:1,max:86400,note:t("voucher.pay_timeoutNote")},{group:"w\
hen",name:"valid_from",kind:"time",empty:v?null:void 0,note:t("voucher.validNote")},{group:"when",name:"valid_until",kind:"\
time",empty:v?null:void 0,note},sale&&{group:"fairness",name:"limit_per_user",kind:"whole",required:!0,min:1,max:100,value:1},
sale&&{group:"fairness",name:"entry.mode",kind:"choice",value:"open",note:t("voucher.entry.modeNote"),options:["open","p\
ass","room"].map(m=>[m,t(`voucher.entry.${m}`)])},sale&&{group:"fairness",name:"entry.opens_at",kind:"time",empty:"",note:t(
"voucher.entry.opens_atNote"),shown:withRoom},sale&&{group:"fairness",name:"entry.rate",kind:"whole",min:1,max:MAX_RATE,
empty:"",note:t("voucher.entry.rateNote"),shown:withRoom},sale&&{group:"advanced",name:"entry.pass_ttl",kind:"whole",min:1,
max:3600,empty:"",note:t("voucher.entry.pass_ttlNote"),shown:withPass},sale&&{group:"fairness",name:"entry.challenge",kind:"\
choice",value:"off",note:t("voucher.entry.challengeNote"),shown:withPass,options:["off","on"].map(c=>[c,t(`voucher.entry\
.challenge.${c}`)])},sale&&{group:"advanced",name:"unpaid_limit",kind:"whole",empty:v?null:void 0,min:0,max:100,note:t("\
voucher.unpaid_limitNote")},sale&&{group:"advanced",name:"segments",kind:"whole",required:!0,min:1,max:16,value:1,note:t(
"voucher.segmentsNote")}],own=v?valuesOf(v):{};return all2.filter(Boolean).map(f=>({label:t(`voucher.${f.name}`),...f,value:own[f.
name]??f.value??""}))}function shopOptions(v,shops){let options=shops.map(s=>[s.id,[s.name,s.area].filter(Boolean).join(
" · ")]);return!v||v.shop_id===NO_SHOP?[["",t("voucher.chooseShop")],...options]:shops.some(s=>s.id===v.shop_id)?options:
[[v.shop_id,t("voucher.unknownShop",{id:v.shop_id})],...options]}function valuesOf(v){let amount3=n=>n===0&&v.status==="\
draft"?"":formatAmount(n,v.currency),all2={...v,pay_value:amount3(v.pay_value),actual_value:amount3(v.actual_value),limit_per_user:String(
v.limit_per_user)};all2.unpaid_limit=String(v.unpaid_limit??""),all2.pay_timeout=v.pay_timeout===void 0?"":formatMinutes(
v.pay_timeout),v.shop_id===NO_SHOP&&(all2.shop_id=""),all2.image_id=v.image_id??"",all2.segments=String(v.segments??1);let window2=v.
begin_at<v.end_at?["begin_at","end_at"]:[];for(let at of[...window2,"valid_from","valid_until"])all2[at]=v[at]?localTime(
v[at]):"";if(window2.length===0&&(all2.begin_at=all2.end_at=""),v.entry){let{mode,opens_at:opens,rate="",pass_ttl:ttl,challenge="\
off"}=v.entry;all2["entry.mode"]=mode,all2["entry.opens_at"]=opens&&Date.parse(v.begin_at)-Date.parse(opens)!==LOBBY?localTime(
opens):"",all2["entry.rate"]=String(rate),all2["entry.pass_ttl"]=ttl===void 0||ttl===PASS_TTL[mode]?"":String(ttl),all2["\
entry.challenge"]=challenge}return all2}function copyOf(v){let begin=soon(1);return{...valuesOf(v),"entry.opens_at":"",stock:String(
v.initial_stock),begin_at:localTime(begin),end_at:localTime(begin+Date.parse(v.end_at)-Date.parse(v.begin_at))}}function body(values,form2){
let rest=Object.fromEntries(Object.entries(values).filter(([name])=>!name.startsWith("entry.")));if(Object.keys(rest).length===
Object.keys(values).length)return values;let mode=form2.value("entry.mode"),entry={mode},take=(name,standard)=>{let field2=`\
entry.${name}`;values["entry.mode"]===void 0&&values[field2]===void 0||(entry[name]=form2.parsed(field2)||standard)};if(mode===
"room"){let begin=form2.parsed("begin_at");take("opens_at",begin&&new Date(Date.parse(begin)-LOBBY).toISOString()),take(
"rate",RATE)}return mode!=="open"&&(take("pass_ttl",PASS_TTL[mode]),take("challenge")),{...rest,entry}}var validate=v=>(values,form2)=>{
let errors={},[begin,end]=["begin_at","end_at"].map(name=>form2.value(name));return begin!==void 0&&new Date(end)<=new Date(
begin)?errors.end_at=t("form.order"):(!v||v.status==="draft")&&new Date(end)<=now()&&(errors.end_at=t("form.over")),form2.
value("entry.mode")==="room"&&new Date(form2.value("entry.opens_at"))>new Date(begin)&&(errors["entry.opens_at"]=t("form\
.opens")),values.pay_value>values.actual_value&&(errors.pay_value=t("form.price")),v&&v.status!=="draft"&&values.actual_value===
0&&(errors.actual_value=t("check.problem.actual_value")),values.valid_from&&values.valid_until&&values.valid_until<=values.
valid_from&&(errors.valid_until=t("form.order")),v&&v.status!=="draft"&&values.limit_per_user<v.limit_per_user&&(errors.
limit_per_user=t("form.lower",{n:v.limit_per_user})),errors};function forms2(v,shops,changed){let current2=v,edit=editor(v,shops,changed),units2=v.type==="seckill"?stock(v,changed):
null,card=preview(edit,shops,{currency:()=>v.currency,stock:()=>current2.stock??0});return{element:beside(h("div",{},section(
t("sale.change"),edit.element),units2&&section(t("sale.stock"),units2.element)),card.element),reset(v2){current2=v2,edit.
reset(valuesOf(v2)),card.update()},edited:()=>[edit,units2].some(f=>f?.edited().length>0),focus:field2=>field2==="stock"?
units2?.focus("delta"):edit.focus(field2==="sale"?"pay_timeout":field2)}}function editor(v,shops,changed){let status=statusLine(),
saved=v,f=form({name:"change",label:t("sale.save"),changes:!0,asks:!0,check:(...input)=>validate(saved)(...input),status,
groups:groups(),fields:fields2(v,shops,()=>v.currency),work:async values=>{if(Object.keys(values).length===0)return status.
show(t("sale.same"));let ends=v.status==="on"&&values.end_at!==void 0&&Date.parse(values.end_at)<=now();await confirmPrice(
v,values)&&(ends&&!await confirm(t("sale.sure.end",{title:v.title}),t("sale.do.end"))||(saved=await patchMine(`/admin/vo\
uchers/${v.id}`,{body:body(values,f)}),f.markSaved(Object.keys(values)),changed(saved),status.show(t(v.status==="on"?"sa\
le.saved":"sale.savedDraft"))))}});return f}async function confirmPrice(v,{pay_value:price}){if(price===void 0)return!0;
let{pay_value:now2,status}=await getMine(`/vouchers/${v.id}`);if(status!=="on"||price===now2)return!0;let[was,is]=[now2,
price].map(n=>money(n,v.currency));return confirm(t("sale.sure.price",{title:v.title,was,is}),t("sale.do.price",{is}),t(
"sale.priceNote"))}function stock(v,changed){let post=intents({lasting:!0}),path=`/admin/vouchers/${v.id}/stock`,status=statusLine(),
open3=h("p",{class:"note","data-open":!0}),showOpen=()=>{let body2=post.open(path);text(open3,body2?t("sale.open",body2):
""),show(open3,body2)},f=form({name:"stock",label:t("sale.apply"),children:[open3],status,fields:[{name:"delta",kind:"wh\
ole",label:t("sale.delta"),note:t("sale.deltaNote"),required:!0,min:-MAX_UNITS,max:MAX_UNITS},{name:"reason",kind:"text",
label:t("sale.reason"),note:t("sale.reasonNote"),required:!0,max:255}],check:values=>values.delta===0?{delta:t("form.zer\
o")}:{},work:async values=>{if(!await confirmAnother(post,path,values,open4=>`${open4.delta}, ${open4.reason}`))return;if(values.
delta<0){let{stock:free}=await getMine(`/vouchers/${v.id}`);if(free+values.delta<0)return f.showErrors({delta:t("sale.fr\
ee",{n:number(free)})});if(!await confirm(t("sale.sure.take",{n:number(-values.delta),title:v.title}),t("sale.apply")))return}
let saved=await post(path,values).finally(showOpen).catch(async problem=>{if(problem.code!=="invalid_state"||values.delta>
0)throw problem;let current2=await getMine(`/vouchers/${v.id}`);changed(current2),f.showErrors({delta:t("sale.free",{n:number(
current2.stock)})})});saved&&(f.clear(),changed(saved),status.show(t("sale.stockUpdated",{n:number(saved.stock)})))}});return post.
open(path)&&f.edited().length===0&&f.write(Object.entries(post.open(path))),showOpen(),f}function mount3(root2,id2){let title=h(
"h1",{tabindex:-1},t("sale.change")),out=errorBox(),place=h("div",{});root2.replaceChildren(h("header",{class:"lead"},title,
h("a",{href:`/console/sales/${id2}`,class:"link"},t("sale.back"))),out.element,place),reading(out,()=>Promise.all([getMine(
`/vouchers/${id2}`),all()])).then(found=>{if(!found)return;let[v,shops]=found;text(title,v.title);let all2=forms2(v,shops,
changed=>{text(title,changed.title),all2.reset(changed)});place.replaceChildren(all2.element),all2.focus(new URLSearchParams(
location.search).get("field"))})}var states=["pending","delivered","failed"],kinds3={delivered:"good",failed:"bad"};function mount4(root2){let query2=new URLSearchParams(
location.search),status=states.includes(query2.get("status"))?query2.get("status"):"",order=query2.get("order_id")??"",filter=form(
{name:"filter",label:t("events.show"),kind:"quiet",fields:[{name:"status",kind:"choice",label:t("voucher.state"),options:[
"all",...states].map(s=>[s,t(`events.status.${s}`)]),value:status||"all"},{name:"order_id",kind:"id",label:t("orders.one"),
value:order}],work:values=>{go(`/console/events?${new URLSearchParams(values)}`)}});worklist(root2,{name:"events",path:"\
/admin/events",params:{...status&&{status},...order&&{order_id:order}},filter,actions:actions3,columns:[{label:t("events\
.created_at"),cell:e=>stamp(e.payload.created_at)},{label:t("events.type"),cell:e=>e.payload.type},{label:t("orders.one"),
cell:e=>h("a",{href:`/console/orders/${e.payload.data.id}?user_id=${e.payload.data.user_id}`},e.payload.data.id)},{label:t(
"voucher.state"),cell:e=>chip(t(`events.status.${e.status}`),kinds3[e.status])},{label:t("events.tries"),number:!0,cell:e=>e.
tries},{label:t("events.next_try_at"),cell:e=>e.next_try_at?stamp(e.next_try_at):"–"},{label:t("events.answer"),cell:e=>[
e.answer_status,e.answer].filter(Boolean).join(" ")||"–"},{label:t("events.payload"),cell:e=>h("details",{},h("summary",
{},t("events.payload")),h("pre",{},JSON.stringify(e.payload,null,2)))}]})}function actions3(event,{out,post,change:change3}){
let repeat=button({name:"repeat",out,label:t("events.repeat")},()=>change3(post(`/admin/events/${event.id}/repeat`),t("e\
vents.repeated")));return h("div",{class:"row-actions","data-event":event.id},repeat)}var durable=s=>s.settled?s.settled.ok??0:null,accepted=s=>s.outcomes?s.outcomes.ok??0:null,codes=["sold_out","duplicate_\
order","order_in_progress","rate_limited","overloaded","unavailable","other"],notRejected=["ok","replayed"];function refused(s,code){
return s.outcomes?[...Object.entries(s.outcomes),...Object.entries(s.settled)].reduce((sum,[c,n])=>code===(codes.includes(
c)?c:"other")&&!notRejected.includes(c)?sum+n:sum,0):null}var refusals=s=>s.outcomes?codes.reduce((sum,code)=>sum+refused(
s,code),0):null,latency=name=>s=>s.outcomes&&Object.keys(s.outcomes).length>0?s[name]:null,batch=s=>s.batches>0?s.batch_rows/
s.batches:null,fact=name=>s=>s[name]??null,soldPlot={name:"sold",stepped:!0,series:[{name:"sold",value:p=>p.sold}]},hourPlots=[
{name:"rate",counts:!0,series:[{name:"ok",value:p=>p.orders},{name:"refused",value:p=>p.refused}]},{name:"left",dots:"sp\
arse",stepped:!0,series:[{name:"left",value:p=>p.stock}]}];function course(curve,{begin_at:begin,end_at:end},at){let sold=0,
points3=curve.map(p=>({at:p.at,sold:sold+=p.orders})),time3=p=>Date.parse(p.at),first={at:begin,sold:0},last={at:Date.parse(
end)<Date.parse(at)?end:at,sold};return[first,...points3,last].filter(p=>time3(p)>=time3(first)&&time3(p)<=Math.max(time3(
last),time3(points3.at(-1)??first)))}var plots=[{name:"orders",counts:!0,series:[{name:"durable",value:durable},{name:"a\
ccepted",value:accepted,queue:!0}]},{name:"refusals",counts:!0,stacked:!0,series:codes.map(code=>({name:code,value:s=>refused(
s,code)}))},{name:"stock",series:[{name:"database",value:fact("stock")},{name:"gate",value:fact("gate"),queue:!0}]},{name:"\
latency",series:[{name:"p50",value:latency("p50_ms")},{name:"p99",value:latency("p99_ms")}]},{name:"batches",dots:!0,series:[
{name:"batch",value:batch}]},{name:"lag",queue:!0,series:[{name:"lag",value:fact("lag")}]}],inLane=(lane,items)=>items.filter(
item=>lane==="queue"||!item.queue),columns2=[{name:"durable",value:durable},{name:"accepted",value:accepted,queue:!0},{name:"\
refused",value:refusals},{name:"database",value:fact("stock")},{name:"gate",value:fact("gate"),queue:!0},{name:"batch",value:batch},
{name:"lag",value:fact("lag"),queue:!0},{name:"p50",value:latency("p50_ms")},{name:"p99",value:latency("p99_ms")}];var SILENCE=2e4,MOST_SILENT=2,MUTE=8e3,MOST_REFUSED=3,HELD=6e5,REFUSED=6e4,FIRST2=500,MOST2=15e3,SPREAD=3e3;async function follow(path,{
signal,headers:own,lastID="",most=MOST2,onEvent,onProblem,done}){let silent=0,refused2=0;for(let failures2=0;!signal.aborted;failures2++){
let retryAfter=0,renew2=!1,heard=!1,began=performance.now(),cut=new AbortController,stop=()=>cut.abort();signal.addEventListener(
"abort",stop);try{let headers={...own,Accept:"text/event-stream",...lastID&&{"Last-Event-ID":lastID}},response=await asUser(
"GET",path,{headers,signal:cut.signal,stream:!0,timeout:MUTE});if(response.status===204)return 0;if(!response.headers.get(
"Content-Type")?.startsWith("text/event-stream"))return HELD;refused2=0;let hear=()=>{heard||onProblem?.(null),heard=!0,
performance.now()-began>MUTE&&(silent=0)},fallSilent=()=>{silent++,stop()};for await(let event of events(response.body,hear,
fallSilent)){if(failures2=0,renew2=event.event==="reauth")break;if(event.id&&(lastID=event.id),event.data!==""&&onEvent(
event),done?.(event))return 0}}catch(err){if(signal.aborted)return 0;if(!(err instanceof Problem))throw err;if(err.foreign&&
err.status>=400&&err.status<500&&err.status!==429)return HELD;if(err.foreign&&err.status>=500&&++refused2===MOST_REFUSED)
return REFUSED;if(onProblem?.(err),err.status===404||err.status===401)return 0;heard||=err.status!==0,retryAfter=err.retryAfter}finally{
signal.removeEventListener("abort",stop),cut.abort()}if(!heard&&!signal.aborted&&performance.now()-began>=MUTE||silent===
MOST_SILENT)return HELD;renew2||await sleep(retryAfter+(failures2===0?Math.random()*SPREAD:backoff(failures2,FIRST2,most)),
signal)}return 0}async function*events(body2,hear,stop){let reader=body2.pipeThrough(new TextDecoderStream).getReader(),
timer2=setTimeout(stop,MUTE),rest="",event={event:"message",id:"",data:""};try{for(;;){let{value,done}=await reader.read().
catch(()=>({done:!0}));if(done)return;hear(),clearTimeout(timer2),timer2=setTimeout(stop,SILENCE);let lines=(rest+value).
split(`
`);rest=lines.pop();for(let line of lines)if(line==="")yield event,event={event:"message",id:"",data:""};else if(!line.startsWith(
":")){let colon=line.indexOf(": ");event[line.slice(0,colon)]=line.slice(colon+2)}}}finally{clearTimeout(timer2),reader.
cancel().catch(()=>{})}}var KEEP=3600,SECONDS=600,PERIOD=10,STALE2=5e3,POLL2=2e3;function watch(id2,onUpdate){let history2=new Map,periods=new Map,
abort=new AbortController,stats=null,received=performance.now(),receivedAt=null,problem=null;function add(latest){stats=
latest,received=performance.now(),receivedAt=new Date;for(let second2 of stats.seconds)history2.set(Date.parse(second2.at)/
1e3,second2);for(let p of stats.hour??[])periods.set(Date.parse(p.at)/1e3,p);let last=Math.max(...history2.keys());for(let at of history2.
keys())at<=last-KEEP&&history2.delete(at);update()}function update(){onUpdate({stats,seconds:withoutGaps(history2),hour:stats?
hourOf(history2,periods,Date.parse(stats.totals.since)/1e3):[],stale:performance.now()-received>STALE2,receivedAt,problem})}
let timer2=setInterval(update,1e3),setProblem=p=>{problem=p,p&&update()};async function run(){let onEvent=event=>event.event===
"stats"&&add(JSON.parse(event.data)),held=0;for(;held=await follow(`/admin/vouchers/${id2}/events`,{signal:abort.signal,
onEvent,onProblem:setProblem});)for(let until=performance.now()+held;performance.now()<until;await sleep(POLL2,abort.signal)){
let[latest,failed]=await getMine(`/admin/vouchers/${id2}/stats`,{signal:abort.signal}).then(s=>[s],p=>[null,p]);if(abort.
signal.aborted)return;setProblem(failed??null),latest&&add(latest)}}return run(),()=>{abort.abort(),clearInterval(timer2)}}
function hourOf(history2,periods,since){let known=[...history2.keys()];if(known.length+periods.size===0)return[];let begin=at=>at-
at%PERIOD,earliest=Math.min(...known),first=since>=begin(earliest)?begin(earliest):Math.ceil(earliest/PERIOD)*PERIOD,hour2=new Map(
[...periods].filter(([at])=>at<first));for(let[at,second2]of history2){if(at<first)continue;let p=hour2.get(begin(at))??
nothingAt(begin(at));hour2.set(begin(at),{...p,orders:p.orders+durable(second2),refused:p.refused+refusals(second2),stock:second2.
stock??p.stock})}let last=begin(Math.max(...known,...periods.keys()));return Array.from({length:KEEP/PERIOD},(_2,i)=>last-
KEEP+(i+1)*PERIOD).map(at=>hour2.get(at)??nothingAt(at))}var nothingAt=begin=>({at:new Date(begin*1e3).toISOString(),orders:0,
refused:0,stock:null});function withoutGaps(history2){if(history2.size===0)return[];let all2=[],last=Math.max(...history2.
keys());for(let at=Math.max(Math.min(...history2.keys()),last-SECONDS+1);at<=last;at++)all2.push(history2.get(at)??{at:new Date(
at*1e3).toISOString()});return all2}var UPLOT="uplot",ORI_HZ="u-hz",ORI_VT="u-vt",TITLE="u-title",WRAP="u-wrap",UNDER="u-under",OVER="u-over",AXIS="u-axis",
OFF="u-off",SELECT="u-select",CURSOR_X="u-cursor-x",CURSOR_Y="u-cursor-y",CURSOR_PT="u-cursor-pt",LEGEND="u-legend",LEGEND_LIVE="\
u-live",LEGEND_INLINE="u-inline",LEGEND_SERIES="u-series",LEGEND_MARKER="u-marker",LEGEND_LABEL="u-label",LEGEND_VALUE="\
u-value",WIDTH="width",HEIGHT="height";var BOTTOM="bottom",LEFT="left",RIGHT="right",hexBlack="#000",transparent=hexBlack+"0",mousemove="mousemove",mousedown="\
mousedown",mouseup="mouseup",mouseenter="mouseenter",mouseleave="mouseleave",dblclick="dblclick",resize="resize",scroll="\
scroll",change2="change",dppxchange="dppxchange",LEGEND_DISP="--",domEnv=typeof window<"u",doc=domEnv?document:null,win=domEnv?
window:null,nav2=domEnv?navigator:null,pxRatio,query;function setPxRatio(){let _pxRatio=devicePixelRatio;pxRatio!=_pxRatio&&
(pxRatio=_pxRatio,query&&off(change2,query,setPxRatio),query=matchMedia(`(min-resolution: ${pxRatio-.001}dppx) and (max-\
resolution: ${pxRatio+.001}dppx)`),on(change2,query,setPxRatio),win.dispatchEvent(new CustomEvent(dppxchange)))}function addClass(el,c){
if(c!=null){let cl=el.classList;!cl.contains(c)&&cl.add(c)}}function remClass(el,c){let cl=el.classList;cl.contains(c)&&
cl.remove(c)}function setStylePx(el,name,value){el.style[name]=value+"px"}function placeTag(tag,cls,targ,refEl){let el=doc.
createElement(tag);return cls!=null&&addClass(el,cls),targ?.insertBefore(el,refEl),el}function placeDiv(cls,targ){return placeTag(
"div",cls,targ)}var xformCache=new WeakMap;function elTrans(el,xPos,yPos,xMax,yMax){let xform="translate("+xPos+"px,"+yPos+
"px)",xformOld=xformCache.get(el);xform!=xformOld&&(el.style.transform=xform,xformCache.set(el,xform),xPos<0||yPos<0||xPos>
xMax||yPos>yMax?addClass(el,OFF):remClass(el,OFF))}var colorCache=new WeakMap;function elColor(el,background,borderColor){
let newColor=background+borderColor,oldColor=colorCache.get(el);newColor!=oldColor&&(colorCache.set(el,newColor),el.style.
background=background,el.style.borderColor=borderColor)}var sizeCache=new WeakMap;function elSize(el,newWid,newHgt,centered){
let newSize=newWid+""+newHgt,oldSize=sizeCache.get(el);newSize!=oldSize&&(sizeCache.set(el,newSize),el.style.height=newHgt+
"px",el.style.width=newWid+"px",el.style.marginLeft=centered?-newWid/2+"px":0,el.style.marginTop=centered?-newHgt/2+"px":
0)}var evOpts={passive:!0},evOpts2={...evOpts,capture:!0};function on(ev,el,cb,capt){el.addEventListener(ev,cb,capt?evOpts2:
evOpts)}function off(ev,el,cb,capt){el.removeEventListener(ev,cb,evOpts)}domEnv&&setPxRatio();function closestIdx(num,arr,lo,hi){
let mid;lo=lo||0,hi=hi||arr.length-1;let bitwise=hi<=2147483647;for(;hi-lo>1;)mid=bitwise?lo+hi>>1:floor((lo+hi)/2),arr[mid]<
num?lo=mid:hi=mid;return num-arr[lo]<=arr[hi]-num?lo:hi}function makeIndexOfs(predicate){return(data,_i0,_i1)=>{let i0=-1,
i1=-1;for(let i=_i0;i<=_i1;i++)if(predicate(data[i])){i0=i;break}for(let i=_i1;i>=_i0;i--)if(predicate(data[i])){i1=i;break}
return[i0,i1]}}var notNullish=v=>v!=null,isPositive=v=>v!=null&&v>0,nonNullIdxs=makeIndexOfs(notNullish),positiveIdxs=makeIndexOfs(
isPositive);function getMinMax(data,_i0,_i1,sorted=0,log=!1){let getEdgeIdxs=log?positiveIdxs:nonNullIdxs,predicate=log?
isPositive:notNullish;[_i0,_i1]=getEdgeIdxs(data,_i0,_i1);let _min=data[_i0],_max=data[_i0];if(_i0>-1)if(sorted==1)_min=
data[_i0],_max=data[_i1];else if(sorted==-1)_min=data[_i1],_max=data[_i0];else for(let i=_i0;i<=_i1;i++){let v=data[i];predicate(
v)&&(v<_min?_min=v:v>_max&&(_max=v))}return[_min??inf,_max??-inf]}function rangeLog(min2,max2,base,fullMags){let minSign=sign(
min2),maxSign=sign(max2);min2==max2&&(minSign==-1?(min2*=base,max2/=base):(min2/=base,max2*=base));let logFn=base==10?log10:
log2,growMinAbs=minSign==1?floor:ceil,growMaxAbs=maxSign==1?ceil:floor,minExp=growMinAbs(logFn(abs(min2))),maxExp=growMaxAbs(
logFn(abs(max2))),minIncr=pow(base,minExp),maxIncr=pow(base,maxExp);return base==10&&(minExp<0&&(minIncr=roundDec(minIncr,
-minExp)),maxExp<0&&(maxIncr=roundDec(maxIncr,-maxExp))),fullMags||base==2?(min2=minIncr*minSign,max2=maxIncr*maxSign):(min2=
incrRoundDn(min2,minIncr),max2=incrRoundUp(max2,maxIncr)),[min2,max2]}function rangeAsinh(min2,max2,base,fullMags){let minMax=rangeLog(
min2,max2,base,fullMags);return min2==0&&(minMax[0]=0),max2==0&&(minMax[1]=0),minMax}var rangePad=.1,autoRangePart={mode:3,
pad:rangePad},_eqRangePart={pad:0,soft:null,mode:0},_eqRange={min:_eqRangePart,max:_eqRangePart};function rangeNum(_min,_max,mult,extra){
return isObj(mult)?_rangeNum(_min,_max,mult):(_eqRangePart.pad=mult,_eqRangePart.soft=extra?0:null,_eqRangePart.mode=extra?
3:0,_rangeNum(_min,_max,_eqRange))}function ifNull(lh,rh){return lh??rh}function hasData(data,idx0,idx1){for(idx0=ifNull(
idx0,0),idx1=ifNull(idx1,data.length-1);idx0<=idx1;){if(data[idx0]!=null)return!0;idx0++}return!1}function _rangeNum(_min,_max,cfg){
let cmin=cfg.min,cmax=cfg.max,padMin=ifNull(cmin.pad,0),padMax=ifNull(cmax.pad,0),hardMin=ifNull(cmin.hard,-inf),hardMax=ifNull(
cmax.hard,inf),softMin=ifNull(cmin.soft,inf),softMax=ifNull(cmax.soft,-inf),softMinMode=ifNull(cmin.mode,0),softMaxMode=ifNull(
cmax.mode,0),delta=_max-_min,deltaMag=log10(delta),scalarMax=max(abs(_min),abs(_max)),scalarMag=log10(scalarMax),scalarMagDelta=abs(
scalarMag-deltaMag);(delta<1e-24||scalarMagDelta>10)&&(delta=0,(_min==0||_max==0)&&(delta=1e-24,softMinMode==2&&softMin!=
inf&&(padMin=0),softMaxMode==2&&softMax!=-inf&&(padMax=0)));let nonZeroDelta=delta||scalarMax||1e3,mag=log10(nonZeroDelta),
base=pow(10,floor(mag)),_padMin=nonZeroDelta*(delta==0?_min==0?.1:1:padMin),_newMin=roundDec(incrRoundDn(_min-_padMin,base/
10),24),_softMin=_min>=softMin&&(softMinMode==1||softMinMode==3&&_newMin<=softMin||softMinMode==2&&_newMin>=softMin)?softMin:
inf,minLim=max(hardMin,_newMin<_softMin&&_min>=_softMin?_softMin:min(_softMin,_newMin)),_padMax=nonZeroDelta*(delta==0?_max==
0?.1:1:padMax),_newMax=roundDec(incrRoundUp(_max+_padMax,base/10),24),_softMax=_max<=softMax&&(softMaxMode==1||softMaxMode==
3&&_newMax>=softMax||softMaxMode==2&&_newMax<=softMax)?softMax:-inf,maxLim=min(hardMax,_newMax>_softMax&&_max<=_softMax?
_softMax:max(_softMax,_newMax));return minLim==maxLim&&minLim==0&&(maxLim=100),[minLim,maxLim]}var numFormatter=new Intl.
NumberFormat(domEnv?nav2.language:"en-US"),fmtNum=val=>numFormatter.format(val),M=Math,PI=M.PI,abs=M.abs,floor=M.floor,round=M.
round,ceil=M.ceil,min=M.min,max=M.max,pow=M.pow,sign=M.sign,log10=M.log10,log2=M.log2,sinh=(v,linthresh=1)=>M.sinh(v)*linthresh,
asinh=(v,linthresh=1)=>M.asinh(v/linthresh),inf=1/0;function numIntDigits(x){return(log10((x^x>>31)-(x>>31))|0)+1}function clamp(num,_min,_max){
return min(max(num,_min),_max)}function isFn(v){return typeof v=="function"}function fnOrSelf(v){return isFn(v)?v:()=>v}
var noop=()=>{},retArg0=_0=>_0,retArg1=(_0,_1)=>_1,retNull=_2=>null,retTrue=_2=>!0,retEq=(a,b)=>a==b,regex6=/\.\d*?(?=9{6,}|0{6,})/gm,
fixFloat=val=>{if(isInt(val)||fixedDec.has(val))return val;let str=`${val}`,match=str.match(regex6);if(match==null)return val;
let len=match[0].length-1;if(str.indexOf("e-")!=-1){let[num,exp]=str.split("e");return+`${fixFloat(num)}e${exp}`}return roundDec(
val,len)};function incrRound(num,incr){return fixFloat(roundDec(fixFloat(num/incr))*incr)}function incrRoundUp(num,incr){
return fixFloat(ceil(fixFloat(num/incr))*incr)}function incrRoundDn(num,incr){return fixFloat(floor(fixFloat(num/incr))*
incr)}function roundDec(val,dec=0){if(isInt(val))return val;let p=10**dec,n=val*p*(1+Number.EPSILON);return round(n)/p}var fixedDec=new Map;
function guessDec(num){return((""+num).split(".")[1]||"").length}function genIncrs(base,minExp,maxExp,mults){let incrs=[],
multDec=mults.map(guessDec);for(let exp=minExp;exp<maxExp;exp++){let expa=abs(exp),mag=roundDec(pow(base,exp),expa);for(let i=0;i<
mults.length;i++){let _incr=base==10?+`${mults[i]}e${exp}`:mults[i]*mag,dec=(exp>=0?0:expa)+(exp>=multDec[i]?0:multDec[i]),
incr=base==10?_incr:roundDec(_incr,dec);incrs.push(incr),fixedDec.set(incr,dec)}}return incrs}var EMPTY_OBJ={},EMPTY_ARR=[],
nullNullTuple=[null,null],isArr=Array.isArray,isInt=Number.isInteger,isUndef=v=>v===void 0;function isStr(v){return typeof v==
"string"}function isObj(v){let is=!1;if(v!=null){let c=v.constructor;is=c==null||c==Object}return is}function fastIsObj(v){
return v!=null&&typeof v=="object"}var TypedArray=Object.getPrototypeOf(Uint8Array),__proto__="__proto__";function copy(o,_isObj=isObj){
let out;if(isArr(o)){let val=o.find(v=>v!=null);if(isArr(val)||_isObj(val)){out=Array(o.length);for(let i=0;i<o.length;i++)
out[i]=copy(o[i],_isObj)}else out=o.slice()}else if(o instanceof TypedArray)out=o.slice();else if(_isObj(o)){out={};for(let k in o)
k!=__proto__&&(out[k]=copy(o[k],_isObj))}else out=o;return out}function assign(targ){let args=arguments;for(let i=1;i<args.
length;i++){let src=args[i];for(let key in src)key!=__proto__&&(isObj(targ[key])?assign(targ[key],copy(src[key])):targ[key]=
copy(src[key]))}return targ}var NULL_REMOVE=0,NULL_RETAIN=1,NULL_EXPAND=2;function nullExpand(yVals,nullIdxs,alignedLen){
for(let i=0,xi,lastNullIdx=-1;i<nullIdxs.length;i++){let nullIdx=nullIdxs[i];if(nullIdx>lastNullIdx){for(xi=nullIdx-1;xi>=
0&&yVals[xi]==null;)yVals[xi--]=null;for(xi=nullIdx+1;xi<alignedLen&&yVals[xi]==null;)yVals[lastNullIdx=xi++]=null}}}function join(tables,nullModes){
if(allHeadersSame(tables)){let table2=tables[0].slice();for(let i=1;i<tables.length;i++)table2.push(...tables[i].slice(1));
return isAsc(table2[0])||(table2=sortCols(table2)),table2}let xVals=new Set;for(let ti=0;ti<tables.length;ti++){let xs=tables[ti][0],
len=xs.length;for(let i=0;i<len;i++)xVals.add(xs[i])}let data=[Array.from(xVals).sort((a,b)=>a-b)],alignedLen=data[0].length,
xIdxs=new Map;for(let i=0;i<alignedLen;i++)xIdxs.set(data[0][i],i);for(let ti=0;ti<tables.length;ti++){let t3=tables[ti],
xs=t3[0];for(let si=1;si<t3.length;si++){let ys=t3[si],yVals=Array(alignedLen).fill(void 0),nullMode=nullModes?nullModes[ti][si]:
NULL_RETAIN,nullIdxs=[];for(let i=0;i<ys.length;i++){let yVal=ys[i],alignedIdx=xIdxs.get(xs[i]);yVal===null?nullMode!=NULL_REMOVE&&
(yVals[alignedIdx]=yVal,nullMode==NULL_EXPAND&&nullIdxs.push(alignedIdx)):yVals[alignedIdx]=yVal}nullExpand(yVals,nullIdxs,
alignedLen),data.push(yVals)}}return data}var microTask=typeof queueMicrotask>"u"?fn=>Promise.resolve().then(fn):queueMicrotask;
function sortCols(table2){let head2=table2[0],rlen=head2.length,idxs=Array(rlen);for(let i=0;i<idxs.length;i++)idxs[i]=i;
idxs.sort((i0,i1)=>head2[i0]-head2[i1]);let table22=[];for(let i=0;i<table2.length;i++){let row=table2[i],row2=Array(rlen);
for(let j=0;j<rlen;j++)row2[j]=row[idxs[j]];table22.push(row2)}return table22}function allHeadersSame(tables){let vals0=tables[0][0],
len0=vals0.length;for(let i=1;i<tables.length;i++){let vals1=tables[i][0];if(vals1.length!=len0)return!1;if(vals1!=vals0){
for(let j=0;j<len0;j++)if(vals1[j]!=vals0[j])return!1}}return!0}function isAsc(vals,samples2=100){let len=vals.length;if(len<=
1)return!0;let firstIdx=0,lastIdx=len-1;for(;firstIdx<=lastIdx&&vals[firstIdx]==null;)firstIdx++;for(;lastIdx>=firstIdx&&
vals[lastIdx]==null;)lastIdx--;if(lastIdx<=firstIdx)return!0;let stride=max(1,floor((lastIdx-firstIdx+1)/samples2));for(let prevVal=vals[firstIdx],
i=firstIdx+stride;i<=lastIdx;i+=stride){let v=vals[i];if(v!=null){if(v<=prevVal)return!1;prevVal=v}}return!0}var months=[
"January","February","March","April","May","June","July","August","September","October","November","December"],days=["Su\
nday","Monday","Tuesday","Wednesday","Thursday","Friday","Saturday"];function slice3(str){return str.slice(0,3)}var days3=days.
map(slice3),months3=months.map(slice3),engNames={MMMM:months,MMM:months3,WWWW:days,WWW:days3};function zeroPad2(int){return(int<
10?"0":"")+int}function zeroPad3(int){return(int<10?"00":int<100?"0":"")+int}var subs={YYYY:d=>d.getFullYear(),YY:d=>(d.
getFullYear()+"").slice(2),MMMM:(d,names2)=>names2.MMMM[d.getMonth()],MMM:(d,names2)=>names2.MMM[d.getMonth()],MM:d=>zeroPad2(
d.getMonth()+1),M:d=>d.getMonth()+1,DD:d=>zeroPad2(d.getDate()),D:d=>d.getDate(),WWWW:(d,names2)=>names2.WWWW[d.getDay()],
WWW:(d,names2)=>names2.WWW[d.getDay()],HH:d=>zeroPad2(d.getHours()),H:d=>d.getHours(),h:d=>{let h2=d.getHours();return h2==
0?12:h2>12?h2-12:h2},AA:d=>d.getHours()>=12?"PM":"AM",aa:d=>d.getHours()>=12?"pm":"am",a:d=>d.getHours()>=12?"p":"a",mm:d=>zeroPad2(
d.getMinutes()),m:d=>d.getMinutes(),ss:d=>zeroPad2(d.getSeconds()),s:d=>d.getSeconds(),fff:d=>zeroPad3(d.getMilliseconds())};
function fmtDate(tpl,names2){names2=names2||engNames;let parts=[],R=/\{([a-z]+)\}|[^{]+/gi,m;for(;m=R.exec(tpl);)parts.push(
m[0][0]=="{"?subs[m[1]]:m[0]);return d=>{let out="";for(let i=0;i<parts.length;i++)out+=typeof parts[i]=="string"?parts[i]:
parts[i](d,names2);return out}}var localTz=new Intl.DateTimeFormat().resolvedOptions().timeZone;function tzDate(date,tz){
let date2;return tz=="UTC"||tz=="Etc/UTC"?date2=new Date(+date+date.getTimezoneOffset()*6e4):tz==localTz?date2=date:(date2=
new Date(date.toLocaleString("en-US",{timeZone:tz})),date2.setMilliseconds(date.getMilliseconds())),date2}var onlyWhole=v=>v%
1==0,allMults=[1,2,2.5,5],decIncrs=genIncrs(10,-32,0,allMults),oneIncrs=genIncrs(10,0,32,allMults),wholeIncrs=oneIncrs.filter(
onlyWhole),numIncrs=decIncrs.concat(oneIncrs),NL=`
`,yyyy="{YYYY}",NLyyyy=NL+yyyy,md="{M}/{D}",NLmd=NL+md,NLmdyy=NLmd+"/{YY}",aa="{aa}",hmm="{h}:{mm}",hmmaa=hmm+aa,NLhmmaa=NL+
hmmaa,ss=":{ss}",_=null;function genTimeStuffs(ms){let s=ms*1e3,m=s*60,h2=m*60,d=h2*24,mo=d*30,y=d*365,timeIncrs=(ms==1?
genIncrs(10,0,3,allMults).filter(onlyWhole):genIncrs(10,-3,0,allMults)).concat([s,s*5,s*10,s*15,s*30,m,m*5,m*10,m*15,m*30,
h2,h2*2,h2*3,h2*4,h2*6,h2*8,h2*12,d,d*2,d*3,d*4,d*5,d*6,d*7,d*8,d*9,d*10,d*15,mo,mo*2,mo*3,mo*4,mo*6,y,y*2,y*5,y*10,y*25,
y*50,y*100]),_timeAxisStamps=[[y,yyyy,_,_,_,_,_,_,1],[d*28,"{MMM}",NLyyyy,_,_,_,_,_,1],[d,md,NLyyyy,_,_,_,_,_,1],[h2,"{h\
}"+aa,NLmdyy,_,NLmd,_,_,_,1],[m,hmmaa,NLmdyy,_,NLmd,_,_,_,1],[s,ss,NLmdyy+" "+hmmaa,_,NLmd+" "+hmmaa,_,NLhmmaa,_,1],[ms,
ss+".{fff}",NLmdyy+" "+hmmaa,_,NLmd+" "+hmmaa,_,NLhmmaa,_,1]];function timeAxisSplits(tzDate2){return(self,axisIdx,scaleMin,scaleMax,foundIncr,foundSpace)=>{
let splits=[],isYr=foundIncr>=y,isMo=foundIncr>=mo&&foundIncr<y,minDate=tzDate2(scaleMin),minDateTs=roundDec(minDate*ms,
3),minMin=mkDate(minDate.getFullYear(),isYr?0:minDate.getMonth(),isMo||isYr?1:minDate.getDate()),minMinTs=roundDec(minMin*
ms,3);if(isMo||isYr){let moIncr=isMo?foundIncr/mo:0,yrIncr=isYr?foundIncr/y:0,split=minDateTs==minMinTs?minDateTs:roundDec(
mkDate(minMin.getFullYear()+yrIncr,minMin.getMonth()+moIncr,1)*ms,3),splitDate=new Date(round(split/ms)),baseYear=splitDate.
getFullYear(),baseMonth=splitDate.getMonth();for(let i=0;split<=scaleMax;i++){let next=mkDate(baseYear+yrIncr*i,baseMonth+
moIncr*i,1),offs=next-tzDate2(roundDec(next*ms,3));split=roundDec((+next+offs)*ms,3),split<=scaleMax&&splits.push(split)}}else{
let incr0=foundIncr>=d?d:foundIncr,tzOffset=floor(scaleMin)-floor(minDateTs),split=minMinTs+tzOffset+incrRoundUp(minDateTs-
minMinTs,incr0);splits.push(split);let date0=tzDate2(split),prevHour=date0.getHours()+date0.getMinutes()/m+date0.getSeconds()/
h2,incrHours=foundIncr/h2,minSpace=self.axes[axisIdx]._space,pctSpace=foundSpace/minSpace;for(;split=roundDec(split+foundIncr,
ms==1?0:3),!(split>scaleMax);)if(incrHours>1){let expectedHour=floor(roundDec(prevHour+incrHours,6))%24,dstShift=tzDate2(
split).getHours()-expectedHour;dstShift>1&&(dstShift=-1),split-=dstShift*h2,prevHour=(prevHour+incrHours)%24;let prevSplit=splits[splits.
length-1];roundDec((split-prevSplit)/foundIncr,3)*pctSpace>=.7&&splits.push(split)}else splits.push(split)}return splits}}
return[timeIncrs,_timeAxisStamps,timeAxisSplits]}var[timeIncrsMs,_timeAxisStampsMs,timeAxisSplitsMs]=genTimeStuffs(1),[timeIncrsS,
_timeAxisStampsS,timeAxisSplitsS]=genTimeStuffs(.001);genIncrs(2,-53,53,[1]);function timeAxisStamps(stampCfg,fmtDate2){
return stampCfg.map(s=>s.map((v,i)=>i==0||i==8||v==null?v:fmtDate2(i==1||s[8]==0?v:s[1]+v)))}function timeAxisVals(tzDate2,stamps){
return(self,splits,axisIdx,foundSpace,foundIncr)=>{let s=stamps.find(s2=>foundIncr>=s2[0])||stamps[stamps.length-1],prevYear,
prevMnth,prevDate,prevHour,prevMins,prevSecs;return splits.map(split=>{let date=tzDate2(split),newYear=date.getFullYear(),
newMnth=date.getMonth(),newDate=date.getDate(),newHour=date.getHours(),newMins=date.getMinutes(),newSecs=date.getSeconds(),
stamp2=newYear!=prevYear&&s[2]||newMnth!=prevMnth&&s[3]||newDate!=prevDate&&s[4]||newHour!=prevHour&&s[5]||newMins!=prevMins&&
s[6]||newSecs!=prevSecs&&s[7]||s[1];return prevYear=newYear,prevMnth=newMnth,prevDate=newDate,prevHour=newHour,prevMins=
newMins,prevSecs=newSecs,stamp2(date)})}}function timeAxisVal(tzDate2,dateTpl){let stamp2=fmtDate(dateTpl);return(self,splits,axisIdx,foundSpace,foundIncr)=>splits.
map(split=>stamp2(tzDate2(split)))}function mkDate(y,m,d){return new Date(y,m,d)}function timeSeriesStamp(stampCfg,fmtDate2){
return fmtDate2(stampCfg)}var _timeSeriesStamp="{YYYY}-{MM}-{DD} {h}:{mm}{aa}";function timeSeriesVal(tzDate2,stamp2){return(self,val,seriesIdx,dataIdx)=>dataIdx==
null?LEGEND_DISP:stamp2(tzDate2(val))}function legendStroke(self,seriesIdx){let s=self.series[seriesIdx];return s.width?
s.stroke(self,seriesIdx):s.points.width?s.points.stroke(self,seriesIdx):null}function legendFill(self,seriesIdx){return self.
series[seriesIdx].fill(self,seriesIdx)}var legendOpts={show:!0,live:!0,isolate:!1,mount:noop,markers:{show:!0,width:2,stroke:legendStroke,
fill:legendFill,dash:"solid"},idx:null,idxs:null,values:[]};function cursorPointShow(self,si){let o=self.cursor.points,pt=placeDiv(),
size=o.size(self,si);setStylePx(pt,WIDTH,size),setStylePx(pt,HEIGHT,size);let mar=size/-2;setStylePx(pt,"marginLeft",mar),
setStylePx(pt,"marginTop",mar);let width=o.width(self,si,size);return width&&setStylePx(pt,"borderWidth",width),pt}function cursorPointFill(self,si){
let sp=self.series[si].points;return sp._fill||sp._stroke}function cursorPointStroke(self,si){let sp=self.series[si].points;
return sp._stroke||sp._fill}function cursorPointSize(self,si){return self.series[si].points.size}var moveTuple=[0,0];function cursorMove(self,mouseLeft1,mouseTop1){
return moveTuple[0]=mouseLeft1,moveTuple[1]=mouseTop1,moveTuple}function filtBtn0(self,targ,handle,onlyTarg=!0){return e=>{
e.button==0&&(!onlyTarg||e.target==targ)&&handle(e)}}function filtTarg(self,targ,handle,onlyTarg=!0){return e=>{(!onlyTarg||
e.target==targ)&&handle(e)}}var cursorOpts={show:!0,x:!0,y:!0,lock:!1,move:cursorMove,points:{one:!1,show:cursorPointShow,
size:cursorPointSize,width:0,stroke:cursorPointStroke,fill:cursorPointFill},bind:{mousedown:filtBtn0,mouseup:filtBtn0,click:filtBtn0,
dblclick:filtBtn0,mousemove:filtTarg,mouseleave:filtTarg,mouseenter:filtTarg},drag:{setScale:!0,x:!0,y:!1,dist:0,uni:null,
click:(self,e)=>{e.stopPropagation(),e.stopImmediatePropagation()},_x:!1,_y:!1},focus:{dist:(self,seriesIdx,dataIdx,valPos,curPos)=>valPos-
curPos,prox:-1,bias:0},hover:{skip:[void 0],prox:null,bias:0},left:-10,top:-10,idx:null,dataIdx:null,idxs:null,event:null},
axisLines={show:!0,stroke:"rgba(0,0,0,0.07)",width:2},grid=assign({},axisLines,{filter:retArg1}),ticks=assign({},grid,{size:10}),
border=assign({},axisLines,{show:!1}),font='12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, \
"Noto Sans", sans-serif, "Apple Color Emoji", "Segoe UI Emoji", "Segoe UI Symbol", "Noto Color Emoji"',labelFont="bold "+
font,lineGap=1.5,xAxisOpts={show:!0,scale:"x",stroke:hexBlack,space:50,gap:5,alignTo:1,size:50,labelGap:0,labelSize:30,labelFont,
side:2,grid,ticks,border,font,lineGap,rotate:0},numSeriesLabel="Value",timeSeriesLabel="Time",xSeriesOpts={show:!0,scale:"\
x",auto:!1,sorted:1,min:inf,max:-inf,idxs:[]};function numAxisVals(self,splits,axisIdx,foundSpace,foundIncr){return splits.
map(v=>v==null?"":fmtNum(v))}function numAxisSplits(self,axisIdx,scaleMin,scaleMax,foundIncr,foundSpace,forceMin){let splits=[],
numDec=fixedDec.get(foundIncr)||0;scaleMin=forceMin?scaleMin:roundDec(incrRoundUp(scaleMin,foundIncr),numDec);for(let val=scaleMin;val<=
scaleMax;val=roundDec(val+foundIncr,numDec))splits.push(Object.is(val,-0)?0:val);return splits}function logAxisSplits(self,axisIdx,scaleMin,scaleMax,foundIncr,foundSpace,forceMin){
let splits=[],logBase=self.scales[self.axes[axisIdx].scale].log,logFn=logBase==10?log10:log2,exp=floor(logFn(scaleMin));
foundIncr=pow(logBase,exp),logBase==10&&(foundIncr=numIncrs[closestIdx(foundIncr,numIncrs)]);let split=scaleMin,nextMagIncr=foundIncr*
logBase;logBase==10&&(nextMagIncr=numIncrs[closestIdx(nextMagIncr,numIncrs)]);do splits.push(split),split=split+foundIncr,
logBase==10&&!fixedDec.has(split)&&(split=roundDec(split,fixedDec.get(foundIncr))),split>=nextMagIncr&&(foundIncr=split,
nextMagIncr=foundIncr*logBase,logBase==10&&(nextMagIncr=numIncrs[closestIdx(nextMagIncr,numIncrs)]));while(split<=scaleMax);
return splits}function asinhAxisSplits(self,axisIdx,scaleMin,scaleMax,foundIncr,foundSpace,forceMin){let linthresh=self.
scales[self.axes[axisIdx].scale].asinh,posSplits=scaleMax>linthresh?logAxisSplits(self,axisIdx,max(linthresh,scaleMin),scaleMax,
foundIncr):[linthresh],zero=scaleMax>=0&&scaleMin<=0?[0]:[];return(scaleMin<-linthresh?logAxisSplits(self,axisIdx,max(linthresh,
-scaleMax),-scaleMin,foundIncr):[linthresh]).reverse().map(v=>-v).concat(zero,posSplits)}var RE_ALL=/./,RE_12357=/[12357]/,
RE_125=/[125]/,RE_1=/1/,_filt=(splits,distr,re,keepMod)=>splits.map((v,i)=>distr==4&&v==0||i%keepMod==0&&re.test(v.toExponential()[v<
0?1:0])?v:null);function log10AxisValsFilt(self,splits,axisIdx,foundSpace,foundIncr){let axis=self.axes[axisIdx],scaleKey=axis.
scale,sc=self.scales[scaleKey],valToPos=self.valToPos,minSpace=axis._space,_10=valToPos(10,scaleKey),re=valToPos(9,scaleKey)-
_10>=minSpace?RE_ALL:valToPos(7,scaleKey)-_10>=minSpace?RE_12357:valToPos(5,scaleKey)-_10>=minSpace?RE_125:RE_1;if(re==RE_1){
let magSpace=abs(valToPos(1,scaleKey)-_10);if(magSpace<minSpace)return _filt(splits.slice().reverse(),sc.distr,re,ceil(minSpace/
magSpace)).reverse()}return _filt(splits,sc.distr,re,1)}function log2AxisValsFilt(self,splits,axisIdx,foundSpace,foundIncr){
let axis=self.axes[axisIdx],scaleKey=axis.scale,minSpace=axis._space,valToPos=self.valToPos,magSpace=abs(valToPos(1,scaleKey)-
valToPos(2,scaleKey));return magSpace<minSpace?_filt(splits.slice().reverse(),3,RE_ALL,ceil(minSpace/magSpace)).reverse():
splits}function numSeriesVal(self,val,seriesIdx,dataIdx){return dataIdx==null?LEGEND_DISP:val==null?"":fmtNum(val)}var yAxisOpts={
show:!0,scale:"y",stroke:hexBlack,space:30,gap:5,alignTo:1,size:50,labelGap:0,labelSize:30,labelFont,side:3,grid,ticks,border,
font,lineGap,rotate:0};function ptDia(width,mult){let dia=3+(width||1)*2;return roundDec(dia*mult,3)}function seriesPointsShow(self,si){
let{scale,idxs}=self.series[0],xData=self._data[0],p0=self.valToPos(xData[idxs[0]],scale,!0),p1=self.valToPos(xData[idxs[1]],
scale,!0),dim=abs(p1-p0),s=self.series[si],maxPts=dim/(s.points.space*pxRatio);return idxs[1]-idxs[0]<=maxPts}var facet={
scale:null,auto:!0,sorted:0,min:inf,max:-inf},gaps=(self,seriesIdx,idx0,idx1,nullGaps)=>nullGaps,xySeriesOpts={show:!0,auto:!0,
sorted:0,gaps,alpha:1,facets:[assign({},facet,{scale:"x"}),assign({},facet,{scale:"y"})]},ySeriesOpts={scale:"y",auto:!0,
sorted:0,show:!0,spanGaps:!1,gaps,alpha:1,points:{show:seriesPointsShow,filter:null},values:null,min:inf,max:-inf,idxs:[],
path:null,clip:null};function clampScale(self,val,scaleMin,scaleMax,scaleKey){return scaleMin/10}var xScaleOpts={time:!0,
auto:!0,distr:1,log:10,asinh:1,min:null,max:null,dir:1,ori:0},yScaleOpts=assign({},xScaleOpts,{time:!1,ori:1}),syncs={};
function _sync(key,opts){let s=syncs[key];return s||(s={key,plots:[],sub(plot2){s.plots.push(plot2)},unsub(plot2){s.plots=
s.plots.filter(c=>c!=plot2)},pub(type,self,x,y,w,h2,i){for(let j=0;j<s.plots.length;j++)s.plots[j]!=self&&s.plots[j].pub(
type,self,x,y,w,h2,i)}},key!=null&&(syncs[key]=s)),s}var BAND_CLIP_FILL=1,BAND_CLIP_STROKE=2;function orient(u,seriesIdx,cb){
let mode=u.mode,series=u.series[seriesIdx],data=mode==2?u._data[seriesIdx]:u._data,scales=u.scales,bbox=u.bbox,dx=data[0],
dy=mode==2?data[1]:data[seriesIdx],sx=mode==2?scales[series.facets[0].scale]:scales[u.series[0].scale],sy=mode==2?scales[series.
facets[1].scale]:scales[series.scale],l=bbox.left,t3=bbox.top,w=bbox.width,h2=bbox.height,H=u.valToPosH,V=u.valToPosV;return sx.
ori==0?cb(series,dx,dy,sx,sy,H,V,l,t3,w,h2,moveToH,lineToH,rectH,arcH,bezierCurveToH):cb(series,dx,dy,sx,sy,V,H,t3,l,h2,
w,moveToV,lineToV,rectV,arcV,bezierCurveToV)}function bandFillClipDirs(self,seriesIdx){let fillDir=0,clipDirs=0,bands=ifNull(
self.bands,EMPTY_ARR);for(let i=0;i<bands.length;i++){let b=bands[i];b.series[0]==seriesIdx?fillDir=b.dir:b.series[1]==seriesIdx&&
(b.dir==1?clipDirs|=1:clipDirs|=2)}return[fillDir,clipDirs==1?-1:clipDirs==2?1:clipDirs==3?2:0]}function seriesFillTo(self,seriesIdx,dataMin,dataMax,bandFillDir){
let mode=self.mode,series=self.series[seriesIdx],scaleKey=mode==2?series.facets[1].scale:series.scale,scale=self.scales[scaleKey];
return bandFillDir==-1?scale.min:bandFillDir==1?scale.max:scale.distr==3?scale.dir==1?scale.min:scale.max:0}function clipBandLine(self,seriesIdx,idx0,idx1,strokePath,clipDir){
return orient(self,seriesIdx,(series,dataX,dataY,scaleX,scaleY,valToPosX,valToPosY,xOff,yOff,xDim,yDim)=>{let pxRound=series.
pxRound,dir=scaleX.dir*(scaleX.ori==0?1:-1),lineTo=scaleX.ori==0?lineToH:lineToV,frIdx,toIdx;dir==1?(frIdx=idx0,toIdx=idx1):
(frIdx=idx1,toIdx=idx0);let x0=pxRound(valToPosX(dataX[frIdx],scaleX,xDim,xOff)),y0=pxRound(valToPosY(dataY[frIdx],scaleY,
yDim,yOff)),x1=pxRound(valToPosX(dataX[toIdx],scaleX,xDim,xOff)),yLimit=pxRound(valToPosY(clipDir==1?scaleY.max:scaleY.min,
scaleY,yDim,yOff)),clip=new Path2D(strokePath);return lineTo(clip,x1,yLimit),lineTo(clip,x0,yLimit),lineTo(clip,x0,y0),clip})}
function clipGaps(gaps2,ori,plotLft,plotTop,plotWid,plotHgt){let clip=null;if(gaps2.length>0){clip=new Path2D;let rect2=ori==
0?rectH:rectV,prevGapEnd=plotLft;for(let i=0;i<gaps2.length;i++){let g=gaps2[i];if(g[1]>g[0]){let w2=g[0]-prevGapEnd;w2>
0&&rect2(clip,prevGapEnd,plotTop,w2,plotTop+plotHgt),prevGapEnd=g[1]}}let w=plotLft+plotWid-prevGapEnd,maxStrokeWidth=10;
w>0&&rect2(clip,prevGapEnd,plotTop-maxStrokeWidth/2,w,plotTop+plotHgt+maxStrokeWidth)}return clip}function addGap(gaps2,fromX,toX){
let prevGap=gaps2[gaps2.length-1];prevGap&&prevGap[0]==fromX?prevGap[1]=toX:gaps2.push([fromX,toX])}function findGaps(xs,ys,idx0,idx1,dir,pixelForX,align){
let gaps2=[],len=xs.length;for(let i=dir==1?idx0:idx1;i>=idx0&&i<=idx1;i+=dir)if(ys[i]===null){let fr=i,to=i;if(dir==1)for(;++i<=
idx1&&ys[i]===null;)to=i;else for(;--i>=idx0&&ys[i]===null;)to=i;let frPx=pixelForX(xs[fr]),toPx=to==fr?frPx:pixelForX(xs[to]),
fri2=fr-dir;frPx=align<=0&&fri2>=0&&fri2<len?pixelForX(xs[fri2]):frPx;let toi2=to+dir;toPx=align>=0&&toi2>=0&&toi2<len?pixelForX(
xs[toi2]):toPx,toPx>=frPx&&gaps2.push([frPx,toPx])}return gaps2}function pxRoundGen(pxAlign){return pxAlign==0?retArg0:pxAlign==
1?round:v=>incrRound(v,pxAlign)}function rect(ori){let moveTo=ori==0?moveToH:moveToV,arcTo=ori==0?(p,x1,y1,x2,y2,r)=>{p.
arcTo(x1,y1,x2,y2,r)}:(p,y1,x1,y2,x2,r)=>{p.arcTo(x1,y1,x2,y2,r)},rect2=ori==0?(p,x,y,w,h2)=>{p.rect(x,y,w,h2)}:(p,y,x,h2,w)=>{
p.rect(x,y,w,h2)};return(p,x,y,w,h2,endRad=0,baseRad=0)=>{endRad==0&&baseRad==0?rect2(p,x,y,w,h2):(endRad=min(endRad,w/2,
h2/2),baseRad=min(baseRad,w/2,h2/2),moveTo(p,x+endRad,y),arcTo(p,x+w,y,x+w,y+h2,endRad),arcTo(p,x+w,y+h2,x,y+h2,baseRad),
arcTo(p,x,y+h2,x,y,baseRad),arcTo(p,x,y,x+w,y,endRad),p.closePath())}}var moveToH=(p,x,y)=>{p.moveTo(x,y)},moveToV=(p,y,x)=>{
p.moveTo(x,y)},lineToH=(p,x,y)=>{p.lineTo(x,y)},lineToV=(p,y,x)=>{p.lineTo(x,y)},rectH=rect(0),rectV=rect(1),arcH=(p,x,y,r,startAngle,endAngle)=>{
p.arc(x,y,r,startAngle,endAngle)},arcV=(p,y,x,r,startAngle,endAngle)=>{p.arc(x,y,r,startAngle,endAngle)},bezierCurveToH=(p,bp1x,bp1y,bp2x,bp2y,p2x,p2y)=>{
p.bezierCurveTo(bp1x,bp1y,bp2x,bp2y,p2x,p2y)},bezierCurveToV=(p,bp1y,bp1x,bp2y,bp2x,p2y,p2x)=>{p.bezierCurveTo(bp1x,bp1y,
bp2x,bp2y,p2x,p2y)};function points(opts){return(u,seriesIdx,idx0,idx1,filtIdxs)=>orient(u,seriesIdx,(series,dataX,dataY,scaleX,scaleY,valToPosX,valToPosY,xOff,yOff,xDim,yDim)=>{
let{pxRound,points:points3}=series,moveTo,arc;scaleX.ori==0?(moveTo=moveToH,arc=arcH):(moveTo=moveToV,arc=arcV);let width=roundDec(
points3.width*pxRatio,3),rad=(points3.size-points3.width)/2*pxRatio,dia=roundDec(rad*2,3),fill=new Path2D,clip=new Path2D,
{left:lft,top,width:wid,height:hgt}=u.bbox;rectH(clip,lft-dia,top-dia,wid+dia*2,hgt+dia*2);let drawPoint=pi=>{if(dataY[pi]!=
null){let x=pxRound(valToPosX(dataX[pi],scaleX,xDim,xOff)),y=pxRound(valToPosY(dataY[pi],scaleY,yDim,yOff));moveTo(fill,
x+rad,y),arc(fill,x,y,rad,0,PI*2)}};if(filtIdxs)filtIdxs.forEach(drawPoint);else for(let pi=idx0;pi<=idx1;pi++)drawPoint(
pi);return{stroke:width>0?fill:null,fill,clip,flags:BAND_CLIP_FILL|BAND_CLIP_STROKE}})}function _drawAcc(lineTo){return(stroke,accX,minY,maxY,inY,outY)=>{
minY!=maxY&&(inY!=minY&&outY!=minY&&lineTo(stroke,accX,minY),inY!=maxY&&outY!=maxY&&lineTo(stroke,accX,maxY),lineTo(stroke,
accX,outY))}}var drawAccH=_drawAcc(lineToH),drawAccV=_drawAcc(lineToV);function linear(opts){let alignGaps=ifNull(opts?.
alignGaps,0);return(u,seriesIdx,idx0,idx1)=>orient(u,seriesIdx,(series,dataX,dataY,scaleX,scaleY,valToPosX,valToPosY,xOff,yOff,xDim,yDim)=>{
[idx0,idx1]=nonNullIdxs(dataY,idx0,idx1);let pxRound=series.pxRound,pixelForX=val=>pxRound(valToPosX(val,scaleX,xDim,xOff)),
pixelForY=val=>pxRound(valToPosY(val,scaleY,yDim,yOff)),lineTo,drawAcc;scaleX.ori==0?(lineTo=lineToH,drawAcc=drawAccH):(lineTo=
lineToV,drawAcc=drawAccV);let dir=scaleX.dir*(scaleX.ori==0?1:-1),_paths={stroke:new Path2D,fill:null,clip:null,band:null,
gaps:null,flags:BAND_CLIP_FILL},stroke=_paths.stroke,hasGap=!1;if(idx1-idx0>=xDim*4){let xForPixel=pos=>u.posToVal(pos,scaleX.
key,!0),minY=null,maxY=null,inY,outY,drawnAtX,accX=pixelForX(dataX[dir==1?idx0:idx1]),idx0px=pixelForX(dataX[idx0]),idx1px=pixelForX(
dataX[idx1]),nextAccXVal=xForPixel(dir==1?idx0px+1:idx1px-1);for(let i=dir==1?idx0:idx1;i>=idx0&&i<=idx1;i+=dir){let xVal=dataX[i],
x=(dir==1?xVal<nextAccXVal:xVal>nextAccXVal)?accX:pixelForX(xVal),yVal=dataY[i];x==accX?yVal!=null?(outY=yVal,minY==null?
(lineTo(stroke,x,pixelForY(outY)),inY=minY=maxY=outY):outY<minY?minY=outY:outY>maxY&&(maxY=outY)):yVal===null&&(hasGap=!0):
(minY!=null&&drawAcc(stroke,accX,pixelForY(minY),pixelForY(maxY),pixelForY(inY),pixelForY(outY)),yVal!=null?(outY=yVal,lineTo(
stroke,x,pixelForY(outY)),minY=maxY=inY=outY):(minY=maxY=null,yVal===null&&(hasGap=!0)),accX=x,nextAccXVal=xForPixel(accX+
dir))}minY!=null&&minY!=maxY&&drawnAtX!=accX&&drawAcc(stroke,accX,pixelForY(minY),pixelForY(maxY),pixelForY(inY),pixelForY(
outY))}else for(let i=dir==1?idx0:idx1;i>=idx0&&i<=idx1;i+=dir){let yVal=dataY[i];yVal===null?hasGap=!0:yVal!=null&&lineTo(
stroke,pixelForX(dataX[i]),pixelForY(yVal))}let[bandFillDir,bandClipDir]=bandFillClipDirs(u,seriesIdx);if(series.fill!=null||
bandFillDir!=0){let fill=_paths.fill=new Path2D(stroke),fillToVal=series.fillTo(u,seriesIdx,series.min,series.max,bandFillDir),
fillToY=pixelForY(fillToVal),frX=pixelForX(dataX[idx0]),toX=pixelForX(dataX[idx1]);dir==-1&&([toX,frX]=[frX,toX]),lineTo(
fill,toX,fillToY),lineTo(fill,frX,fillToY)}if(!series.spanGaps){let gaps2=[];hasGap&&gaps2.push(...findGaps(dataX,dataY,
idx0,idx1,dir,pixelForX,alignGaps)),_paths.gaps=gaps2=series.gaps(u,seriesIdx,idx0,idx1,gaps2),_paths.clip=clipGaps(gaps2,
scaleX.ori,xOff,yOff,xDim,yDim)}return bandClipDir!=0&&(_paths.band=bandClipDir==2?[clipBandLine(u,seriesIdx,idx0,idx1,stroke,
-1),clipBandLine(u,seriesIdx,idx0,idx1,stroke,1)]:clipBandLine(u,seriesIdx,idx0,idx1,stroke,bandClipDir)),_paths})}function stepped(opts){
let align=ifNull(opts.align,1),ascDesc=ifNull(opts.ascDesc,!1),alignGaps=ifNull(opts.alignGaps,0),extend=ifNull(opts.extend,
!1);return(u,seriesIdx,idx0,idx1)=>orient(u,seriesIdx,(series,dataX,dataY,scaleX,scaleY,valToPosX,valToPosY,xOff,yOff,xDim,yDim)=>{
[idx0,idx1]=nonNullIdxs(dataY,idx0,idx1);let pxRound=series.pxRound,{left:left2,width}=u.bbox,pixelForX=val=>pxRound(valToPosX(
val,scaleX,xDim,xOff)),pixelForY=val=>pxRound(valToPosY(val,scaleY,yDim,yOff)),lineTo=scaleX.ori==0?lineToH:lineToV,_paths={
stroke:new Path2D,fill:null,clip:null,band:null,gaps:null,flags:BAND_CLIP_FILL},stroke=_paths.stroke,dir=scaleX.dir*(scaleX.
ori==0?1:-1),prevYPos=pixelForY(dataY[dir==1?idx0:idx1]),firstXPos=pixelForX(dataX[dir==1?idx0:idx1]),prevXPos=firstXPos,
firstXPosExt=firstXPos;extend&&align==-1&&(firstXPosExt=left2,lineTo(stroke,firstXPosExt,prevYPos)),lineTo(stroke,firstXPos,
prevYPos);for(let i=dir==1?idx0:idx1;i>=idx0&&i<=idx1;i+=dir){let yVal1=dataY[i];if(yVal1==null)continue;let x1=pixelForX(
dataX[i]),y1=pixelForY(yVal1);align==1?lineTo(stroke,x1,prevYPos):lineTo(stroke,prevXPos,y1),lineTo(stroke,x1,y1),prevYPos=
y1,prevXPos=x1}let prevXPosExt=prevXPos;extend&&align==1&&(prevXPosExt=left2+width,lineTo(stroke,prevXPosExt,prevYPos));
let[bandFillDir,bandClipDir]=bandFillClipDirs(u,seriesIdx);if(series.fill!=null||bandFillDir!=0){let fill=_paths.fill=new Path2D(
stroke),fillTo=series.fillTo(u,seriesIdx,series.min,series.max,bandFillDir),fillToY=pixelForY(fillTo);lineTo(fill,prevXPosExt,
fillToY),lineTo(fill,firstXPosExt,fillToY)}if(!series.spanGaps){let gaps2=[];gaps2.push(...findGaps(dataX,dataY,idx0,idx1,
dir,pixelForX,alignGaps));let halfStroke=series.width*pxRatio/2,startsOffset=ascDesc||align==1?halfStroke:-halfStroke,endsOffset=ascDesc||
align==-1?-halfStroke:halfStroke;gaps2.forEach(g=>{g[0]+=startsOffset,g[1]+=endsOffset}),_paths.gaps=gaps2=series.gaps(u,
seriesIdx,idx0,idx1,gaps2),_paths.clip=clipGaps(gaps2,scaleX.ori,xOff,yOff,xDim,yDim)}return bandClipDir!=0&&(_paths.band=
bandClipDir==2?[clipBandLine(u,seriesIdx,idx0,idx1,stroke,-1),clipBandLine(u,seriesIdx,idx0,idx1,stroke,1)]:clipBandLine(
u,seriesIdx,idx0,idx1,stroke,bandClipDir)),_paths})}function findColWidth(dataX,dataY,valToPosX,scaleX,xDim,xOff,colWid=inf){
if(dataX.length>1){let prevIdx=null;for(let i=0,minDelta=1/0;i<dataX.length;i++)if(dataY[i]!==void 0){if(prevIdx!=null){
let delta=abs(dataX[i]-dataX[prevIdx]);delta<minDelta&&(minDelta=delta,colWid=abs(valToPosX(dataX[i],scaleX,xDim,xOff)-valToPosX(
dataX[prevIdx],scaleX,xDim,xOff)))}prevIdx=i}}return colWid}function bars(opts){opts=opts||EMPTY_OBJ;let size=ifNull(opts.
size,[.6,inf,1]),align=opts.align||0,_extraGap=opts.gap||0,ro=opts.radius;ro=ro==null?[0,0]:typeof ro=="number"?[ro,0]:ro;
let radiusFn=fnOrSelf(ro),gapFactor=1-size[0],_maxWidth=ifNull(size[1],inf),_minWidth=ifNull(size[2],1),disp=ifNull(opts.
disp,EMPTY_OBJ),_each=ifNull(opts.each,_2=>{}),{fill:dispFills,stroke:dispStrokes}=disp;return(u,seriesIdx,idx0,idx1)=>orient(
u,seriesIdx,(series,dataX,dataY,scaleX,scaleY,valToPosX,valToPosY,xOff,yOff,xDim,yDim)=>{let pxRound=series.pxRound,_align=align,
extraGap=_extraGap*pxRatio,maxWidth=_maxWidth*pxRatio,minWidth=_minWidth*pxRatio,valRadius,baseRadius;scaleX.ori==0?[valRadius,
baseRadius]=radiusFn(u,seriesIdx):[baseRadius,valRadius]=radiusFn(u,seriesIdx);let _dirX=scaleX.dir*(scaleX.ori==0?1:-1),
rect2=scaleX.ori==0?rectH:rectV,each=scaleX.ori==0?_each:(u2,seriesIdx2,i,top,lft,hgt,wid)=>{_each(u2,seriesIdx2,i,lft,top,
wid,hgt)},band=ifNull(u.bands,EMPTY_ARR).find(b=>b.series[0]==seriesIdx),fillDir=band!=null?band.dir:0,fillTo=series.fillTo(
u,seriesIdx,series.min,series.max,fillDir),fillToY=pxRound(valToPosY(fillTo,scaleY,yDim,yOff)),xShift,barWid,fullGap,colWid=xDim,
strokeWidth=pxRound(series.width*pxRatio),multiPath=!1,fillColors=null,fillPaths=null,strokeColors=null,strokePaths=null;
dispFills!=null&&(strokeWidth==0||dispStrokes!=null)&&(multiPath=!0,fillColors=dispFills.values(u,seriesIdx,idx0,idx1),fillPaths=
new Map,new Set(fillColors).forEach(color2=>{color2!=null&&fillPaths.set(color2,new Path2D)}),strokeWidth>0&&(strokeColors=
dispStrokes.values(u,seriesIdx,idx0,idx1),strokePaths=new Map,new Set(strokeColors).forEach(color2=>{color2!=null&&strokePaths.
set(color2,new Path2D)})));let{x0,size:size2}=disp;if(x0!=null&&size2!=null){_align=1,dataX=x0.values(u,seriesIdx,idx0,idx1),
x0.unit==2&&(dataX=dataX.map(pct=>u.posToVal(xOff+pct*xDim,scaleX.key,!0)));let sizes=size2.values(u,seriesIdx,idx0,idx1);
size2.unit==2?barWid=sizes[0]*xDim:barWid=valToPosX(sizes[0],scaleX,xDim,xOff)-valToPosX(0,scaleX,xDim,xOff),colWid=findColWidth(
dataX,dataY,valToPosX,scaleX,xDim,xOff,colWid),fullGap=colWid-barWid+extraGap}else colWid=findColWidth(dataX,dataY,valToPosX,
scaleX,xDim,xOff,colWid),fullGap=colWid*gapFactor+extraGap,barWid=colWid-fullGap;fullGap<1&&(fullGap=0),strokeWidth>=barWid/
2&&(strokeWidth=0),fullGap<5&&(pxRound=retArg0);let insetStroke=fullGap>0,rawBarWid=colWid-fullGap-(insetStroke?strokeWidth:
0);barWid=pxRound(clamp(rawBarWid,minWidth,maxWidth)),xShift=(_align==0?barWid/2:_align==_dirX?0:barWid)-_align*_dirX*((_align==
0?extraGap/2:0)+(insetStroke?strokeWidth/2:0));let _paths={stroke:null,fill:null,clip:null,band:null,gaps:null,flags:0},
stroke=multiPath?null:new Path2D,dataY0=null;if(band!=null)dataY0=u.data[band.series[1]];else{let{y0,y1}=disp;y0!=null&&
y1!=null&&(dataY=y1.values(u,seriesIdx,idx0,idx1),dataY0=y0.values(u,seriesIdx,idx0,idx1))}let radVal=valRadius*barWid,radBase=baseRadius*
barWid;for(let i=_dirX==1?idx0:idx1;i>=idx0&&i<=idx1;i+=_dirX){let yVal=dataY[i];if(yVal==null)continue;if(dataY0!=null){
let yVal0=dataY0[i]??0;if(yVal-yVal0==0)continue;fillToY=valToPosY(yVal0,scaleY,yDim,yOff)}let xVal=scaleX.distr!=2||disp!=
null?dataX[i]:i,xPos=valToPosX(xVal,scaleX,xDim,xOff),yPos=valToPosY(ifNull(yVal,fillTo),scaleY,yDim,yOff),lft=pxRound(xPos-
xShift),btm=pxRound(max(yPos,fillToY)),top=pxRound(min(yPos,fillToY)),barHgt=btm-top;if(yVal!=null){let rv=yVal<0?radBase:
radVal,rb=yVal<0?radVal:radBase;multiPath?(strokeWidth>0&&strokeColors[i]!=null&&rect2(strokePaths.get(strokeColors[i]),
lft,top+floor(strokeWidth/2),barWid,max(0,barHgt-strokeWidth),rv,rb),fillColors[i]!=null&&rect2(fillPaths.get(fillColors[i]),
lft,top+floor(strokeWidth/2),barWid,max(0,barHgt-strokeWidth),rv,rb)):rect2(stroke,lft,top+floor(strokeWidth/2),barWid,max(
0,barHgt-strokeWidth),rv,rb),each(u,seriesIdx,i,lft-strokeWidth/2,top,barWid+strokeWidth,barHgt)}}return strokeWidth>0?_paths.
stroke=multiPath?strokePaths:stroke:multiPath||(_paths._fill=series.width==0?series._fill:series._stroke??series._fill,_paths.
width=0),_paths.fill=multiPath?fillPaths:stroke,_paths})}function splineInterp(interp,opts){let alignGaps=ifNull(opts?.alignGaps,
0);return(u,seriesIdx,idx0,idx1)=>orient(u,seriesIdx,(series,dataX,dataY,scaleX,scaleY,valToPosX,valToPosY,xOff,yOff,xDim,yDim)=>{
[idx0,idx1]=nonNullIdxs(dataY,idx0,idx1);let pxRound=series.pxRound,pixelForX=val=>pxRound(valToPosX(val,scaleX,xDim,xOff)),
pixelForY=val=>pxRound(valToPosY(val,scaleY,yDim,yOff)),moveTo,bezierCurveTo,lineTo;scaleX.ori==0?(moveTo=moveToH,lineTo=
lineToH,bezierCurveTo=bezierCurveToH):(moveTo=moveToV,lineTo=lineToV,bezierCurveTo=bezierCurveToV);let dir=scaleX.dir*(scaleX.
ori==0?1:-1),firstXPos=pixelForX(dataX[dir==1?idx0:idx1]),prevXPos=firstXPos,xCoords=[],yCoords=[];for(let i=dir==1?idx0:
idx1;i>=idx0&&i<=idx1;i+=dir)if(dataY[i]!=null){let xVal=dataX[i],xPos=pixelForX(xVal);xCoords.push(prevXPos=xPos),yCoords.
push(pixelForY(dataY[i]))}let _paths={stroke:interp(xCoords,yCoords,moveTo,lineTo,bezierCurveTo,pxRound),fill:null,clip:null,
band:null,gaps:null,flags:BAND_CLIP_FILL},stroke=_paths.stroke,[bandFillDir,bandClipDir]=bandFillClipDirs(u,seriesIdx);if(series.
fill!=null||bandFillDir!=0){let fill=_paths.fill=new Path2D(stroke),fillTo=series.fillTo(u,seriesIdx,series.min,series.max,
bandFillDir),fillToY=pixelForY(fillTo);lineTo(fill,prevXPos,fillToY),lineTo(fill,firstXPos,fillToY)}if(!series.spanGaps){
let gaps2=[];gaps2.push(...findGaps(dataX,dataY,idx0,idx1,dir,pixelForX,alignGaps)),_paths.gaps=gaps2=series.gaps(u,seriesIdx,
idx0,idx1,gaps2),_paths.clip=clipGaps(gaps2,scaleX.ori,xOff,yOff,xDim,yDim)}return bandClipDir!=0&&(_paths.band=bandClipDir==
2?[clipBandLine(u,seriesIdx,idx0,idx1,stroke,-1),clipBandLine(u,seriesIdx,idx0,idx1,stroke,1)]:clipBandLine(u,seriesIdx,
idx0,idx1,stroke,bandClipDir)),_paths})}function monotoneCubic(opts){return splineInterp(_monotoneCubic,opts)}function _monotoneCubic(xs,ys,moveTo,lineTo,bezierCurveTo,pxRound){
let n=xs.length;if(n<2)return null;let path=new Path2D;if(moveTo(path,xs[0],ys[0]),n==2)lineTo(path,xs[1],ys[1]);else{let ms=Array(
n),ds=Array(n-1),dys=Array(n-1),dxs=Array(n-1);for(let i=0;i<n-1;i++)dys[i]=ys[i+1]-ys[i],dxs[i]=xs[i+1]-xs[i],ds[i]=dys[i]/
dxs[i];ms[0]=ds[0];for(let i=1;i<n-1;i++)ds[i]===0||ds[i-1]===0||ds[i-1]>0!=ds[i]>0?ms[i]=0:(ms[i]=3*(dxs[i-1]+dxs[i])/((2*
dxs[i]+dxs[i-1])/ds[i-1]+(dxs[i]+2*dxs[i-1])/ds[i]),isFinite(ms[i])||(ms[i]=0));ms[n-1]=ds[n-2];for(let i=0;i<n-1;i++)bezierCurveTo(
path,xs[i]+dxs[i]/3,ys[i]+ms[i]*dxs[i]/3,xs[i+1]-dxs[i]/3,ys[i+1]-ms[i+1]*dxs[i]/3,xs[i+1],ys[i+1])}return path}var cursorPlots=new Set;
function invalidateRects(){for(let u of cursorPlots)u.syncRect(!0)}domEnv&&(on(resize,win,invalidateRects),on(scroll,win,
invalidateRects,!0),on(dppxchange,win,()=>{uPlot.pxRatio=pxRatio}));var linearPath=linear(),pointsPath=points();function setDefaults(d,xo,yo,initY){
return(initY?[d[0],d[1]].concat(d.slice(2)):[d[0]].concat(d.slice(1))).map((o,i)=>setDefault(o,i,xo,yo))}function setDefaults2(d,xyo){
return d.map((o,i)=>i==0?{}:assign({},xyo,o))}function setDefault(o,i,xo,yo){return assign({},i==0?xo:yo,o)}function snapNumX(self,dataMin,dataMax){
return dataMin==null?nullNullTuple:[dataMin,dataMax]}var snapTimeX=snapNumX;function snapNumY(self,dataMin,dataMax){return dataMin==
null?nullNullTuple:rangeNum(dataMin,dataMax,rangePad,!0)}function snapLogY(self,dataMin,dataMax,scale){return dataMin==null?
nullNullTuple:rangeLog(dataMin,dataMax,self.scales[scale].log,!1)}var snapLogX=snapLogY;function snapAsinhY(self,dataMin,dataMax,scale){
return dataMin==null?nullNullTuple:rangeAsinh(dataMin,dataMax,self.scales[scale].log,!1)}var snapAsinhX=snapAsinhY;function findIncr(minVal,maxVal,incrs,dim,minSpace){
let intDigits=max(numIntDigits(minVal),numIntDigits(maxVal)),delta=maxVal-minVal,incrIdx=closestIdx(minSpace/dim*delta,incrs);
do{let foundIncr=incrs[incrIdx],foundSpace=dim*foundIncr/delta;if(foundSpace>=minSpace&&intDigits+(foundIncr<5?fixedDec.
get(foundIncr):0)<=17)return[foundIncr,foundSpace]}while(++incrIdx<incrs.length);return[0,0]}function pxRatioFont(font2){
let fontSize,fontSizeCss;return font2=font2.replace(/(\d+)px/,(m,p1)=>(fontSize=round((fontSizeCss=+p1)*pxRatio))+"px"),
[font2,fontSize,fontSizeCss]}function syncFontSize(axis){axis.show&&[axis.font,axis.labelFont].forEach(f=>{let size=roundDec(
f[2]*pxRatio,1);f[0]=f[0].replace(/[0-9.]+px/,size+"px"),f[1]=size})}function uPlot(opts,data,then){let self={mode:ifNull(
opts.mode,1)},mode=self.mode;function getHPos(val,scale,dim,off2){let pct=scale.valToPct(val);return off2+dim*(scale.dir==
-1?1-pct:pct)}function getVPos(val,scale,dim,off2){let pct=scale.valToPct(val);return off2+dim*(scale.dir==-1?pct:1-pct)}
function getPos(val,scale,dim,off2){return scale.ori==0?getHPos(val,scale,dim,off2):getVPos(val,scale,dim,off2)}self.valToPosH=
getHPos,self.valToPosV=getVPos;let ready=!1;self.status=0;let root2=self.root=placeDiv(UPLOT);if(opts.id!=null&&(root2.id=
opts.id),addClass(root2,opts.class),opts.title){let title=placeDiv(TITLE,root2);title.textContent=opts.title}let can=placeTag(
"canvas"),ctx=self.ctx=can.getContext("2d"),wrap=placeDiv(WRAP,root2);on("click",wrap,e=>{e.target===over&&(mouseLeft1!=
mouseLeft0||mouseTop1!=mouseTop0)&&drag.click(self,e)},!0);let under=self.under=placeDiv(UNDER,wrap);wrap.appendChild(can);
let over=self.over=placeDiv(OVER,wrap);opts=copy(opts);let pxAlign=+ifNull(opts.pxAlign,1),pxRound=pxRoundGen(pxAlign);(opts.
plugins||[]).forEach(p=>{p.opts&&(opts=p.opts(self,opts)||opts)});let ms=opts.ms||.001,series=self.series=mode==1?setDefaults(
opts.series||[],xSeriesOpts,ySeriesOpts,!1):setDefaults2(opts.series||[null],xySeriesOpts),axes=self.axes=setDefaults(opts.
axes||[],xAxisOpts,yAxisOpts,!0),scales=self.scales={},bands=self.bands=opts.bands||[];bands.forEach(b=>{b.fill=fnOrSelf(
b.fill||null),b.dir=ifNull(b.dir,-1)});let xScaleKey=mode==2?series[1].facets[0].scale:series[0].scale,drawOrderMap={axes:drawAxesGrid,
series:drawSeries},drawOrder=(opts.drawOrder||["axes","series"]).map(key2=>drawOrderMap[key2]);function initValToPct(sc){
let getVal=sc.distr==3?val=>log10(val>0?val:sc.clamp(self,val,sc.min,sc.max,sc.key)):sc.distr==4?val=>asinh(val,sc.asinh):
sc.distr==100?val=>sc.fwd(val):val=>val;return val=>{let _val=getVal(val),{_min,_max}=sc,delta=_max-_min;return(_val-_min)/
delta}}function initScale(scaleKey){let sc=scales[scaleKey];if(sc==null){let scaleOpts=(opts.scales||EMPTY_OBJ)[scaleKey]||
EMPTY_OBJ;if(scaleOpts.from!=null){initScale(scaleOpts.from);let sc2=assign({},scales[scaleOpts.from],scaleOpts,{key:scaleKey});
sc2.valToPct=initValToPct(sc2),scales[scaleKey]=sc2}else{sc=scales[scaleKey]=assign({},scaleKey==xScaleKey?xScaleOpts:yScaleOpts,
scaleOpts),sc.key=scaleKey;let isTime=sc.time,rn=sc.range,rangeIsArr=isArr(rn);if((scaleKey!=xScaleKey||mode==2&&!isTime)&&
(rangeIsArr&&(rn[0]==null||rn[1]==null)&&(rn={min:rn[0]==null?autoRangePart:{mode:1,hard:rn[0],soft:rn[0]},max:rn[1]==null?
autoRangePart:{mode:1,hard:rn[1],soft:rn[1]}},rangeIsArr=!1),!rangeIsArr&&isObj(rn))){let cfg=rn;rn=(self2,dataMin,dataMax)=>dataMin==
null?nullNullTuple:rangeNum(dataMin,dataMax,cfg)}sc.range=fnOrSelf(rn||(isTime?snapTimeX:scaleKey==xScaleKey?sc.distr==3?
snapLogX:sc.distr==4?snapAsinhX:snapNumX:sc.distr==3?snapLogY:sc.distr==4?snapAsinhY:snapNumY)),sc.auto=fnOrSelf(rangeIsArr?
!1:sc.auto),sc.clamp=fnOrSelf(sc.clamp||clampScale),sc._min=sc._max=null,sc.valToPct=initValToPct(sc)}}}initScale("x"),initScale(
"y"),mode==1&&series.forEach(s=>{initScale(s.scale)}),axes.forEach(a=>{initScale(a.scale)});for(let k in opts.scales)initScale(
k);let scaleX=scales[xScaleKey],xScaleDistr=scaleX.distr,valToPosX,valToPosY;scaleX.ori==0?(addClass(root2,ORI_HZ),valToPosX=
getHPos,valToPosY=getVPos):(addClass(root2,ORI_VT),valToPosX=getVPos,valToPosY=getHPos);let pendScales={};for(let k in scales){
let sc=scales[k];(sc.min!=null||sc.max!=null)&&(pendScales[k]={min:sc.min,max:sc.max},sc.min=sc.max=null)}let _tzDate=opts.
tzDate||(ts=>new Date(round(ts/ms))),_fmtDate=opts.fmtDate||fmtDate,_timeAxisSplits=ms==1?timeAxisSplitsMs(_tzDate):timeAxisSplitsS(
_tzDate),_timeAxisVals=timeAxisVals(_tzDate,timeAxisStamps(ms==1?_timeAxisStampsMs:_timeAxisStampsS,_fmtDate)),_timeSeriesVal=timeSeriesVal(
_tzDate,timeSeriesStamp(_timeSeriesStamp,_fmtDate)),activeIdxs=[],legend=self.legend=assign({},legendOpts,opts.legend),cursor=self.
cursor=assign({},cursorOpts,{drag:{y:mode==2}},opts.cursor),showLegend=legend.show,showCursor=cursor.show,markers=legend.
markers;legend.idxs=activeIdxs,markers.width=fnOrSelf(markers.width),markers.dash=fnOrSelf(markers.dash),markers.stroke=
fnOrSelf(markers.stroke),markers.fill=fnOrSelf(markers.fill);let legendTable,legendHead,legendBody,legendRows=[],legendCells=[],
legendCols,multiValLegend=!1,NULL_LEGEND_VALUES={};if(legend.live){let getMultiVals=series[1]?series[1].values:null;multiValLegend=
getMultiVals!=null,legendCols=multiValLegend?getMultiVals(self,1,0):{_:0};for(let k in legendCols)NULL_LEGEND_VALUES[k]=
LEGEND_DISP}if(showLegend)if(legendTable=placeTag("table",LEGEND,root2),legendBody=placeTag("tbody",null,legendTable),legend.
mount(self,legendTable),multiValLegend){legendHead=placeTag("thead",null,legendTable,legendBody);let head2=placeTag("tr",
null,legendHead);placeTag("th",null,head2);for(var key in legendCols)placeTag("th",LEGEND_LABEL,head2).textContent=key}else
addClass(legendTable,LEGEND_INLINE),legend.live&&addClass(legendTable,LEGEND_LIVE);let son={show:!0},soff={show:!1};function initLegendRow(s,i){
if(i==0&&(multiValLegend||!legend.live||mode==2))return nullNullTuple;let cells=[],row=placeTag("tr",LEGEND_SERIES,legendBody,
legendBody.childNodes[i]);addClass(row,s.class),s.show||addClass(row,OFF);let label=placeTag("th",null,row);if(markers.show){
let indic=placeDiv(LEGEND_MARKER,label);if(i>0){let width=markers.width(self,i);width&&(indic.style.border=width+"px "+markers.
dash(self,i)+" "+markers.stroke(self,i)),indic.style.background=markers.fill(self,i)}}let text2=placeDiv(LEGEND_LABEL,label);
s.label instanceof HTMLElement?text2.appendChild(s.label):text2.textContent=s.label,i>0&&(markers.show||(text2.style.color=
s.width>0?markers.stroke(self,i):markers.fill(self,i)),onMouse("click",label,e=>{if(cursor._lock)return;setCursorEvent(e);
let seriesIdx=series.indexOf(s);if((e.ctrlKey||e.metaKey)!=legend.isolate){let isolate=series.some((s2,i2)=>i2>0&&i2!=seriesIdx&&
s2.show);series.forEach((s2,i2)=>{i2>0&&setSeries(i2,isolate?i2==seriesIdx?son:soff:son,!0,syncOpts.setSeries)})}else setSeries(
seriesIdx,{show:!s.show},!0,syncOpts.setSeries)},!1),cursorFocus&&onMouse(mouseenter,label,e=>{cursor._lock||(setCursorEvent(
e),setSeries(series.indexOf(s),FOCUS_TRUE,!0,syncOpts.setSeries))},!1));for(var key2 in legendCols){let v=placeTag("td",
LEGEND_VALUE,row);v.textContent="--",cells.push(v)}return[row,cells]}let mouseListeners=new Map;function onMouse(ev,targ,fn,onlyTarg=!0){
let targListeners=mouseListeners.get(targ)||{},listener=cursor.bind[ev](self,targ,fn,onlyTarg);listener&&(on(ev,targ,targListeners[ev]=
listener),mouseListeners.set(targ,targListeners))}function offMouse(ev,targ,fn){let targListeners=mouseListeners.get(targ)||
{};for(let k in targListeners)(ev==null||k==ev)&&(off(k,targ,targListeners[k]),delete targListeners[k]);ev==null&&mouseListeners.
delete(targ)}let fullWidCss=0,fullHgtCss=0,plotWidCss=0,plotHgtCss=0,plotLftCss=0,plotTopCss=0,_plotLftCss=plotLftCss,_plotTopCss=plotTopCss,
_plotWidCss=plotWidCss,_plotHgtCss=plotHgtCss,plotLft=0,plotTop=0,plotWid=0,plotHgt=0;self.bbox={};let shouldSetScales=!1,
shouldSetSize=!1,shouldConvergeSize=!1,shouldSetCursor=!1,shouldSetSelect=!1,shouldSetLegend=!1;function _setSize(width,height,force){
(force||width!=self.width||height!=self.height)&&calcSize(width,height),resetYSeries(!1),shouldConvergeSize=!0,shouldSetSize=
!0,commit()}function calcSize(width,height){self.width=fullWidCss=plotWidCss=width,self.height=fullHgtCss=plotHgtCss=height,
plotLftCss=plotTopCss=0,calcPlotRect(),calcAxesRects();let bb=self.bbox;plotLft=bb.left=incrRound(plotLftCss*pxRatio,.5),
plotTop=bb.top=incrRound(plotTopCss*pxRatio,.5),plotWid=bb.width=incrRound(plotWidCss*pxRatio,.5),plotHgt=bb.height=incrRound(
plotHgtCss*pxRatio,.5)}let CYCLE_LIMIT=3;function convergeSize(){let converged=!1,cycleNum=0;for(;!converged;){cycleNum++;
let axesConverged=axesCalc(cycleNum),paddingConverged=paddingCalc(cycleNum);converged=cycleNum==CYCLE_LIMIT||axesConverged&&
paddingConverged,converged||(calcSize(self.width,self.height),shouldSetSize=!0)}}function setSize({width,height}){_setSize(
width,height)}self.setSize=setSize;function calcPlotRect(){let hasTopAxis=!1,hasBtmAxis=!1,hasRgtAxis=!1,hasLftAxis=!1;axes.
forEach((axis,i)=>{if(axis.show&&axis._show){let{side,_size}=axis,isVt=side%2,labelSize=axis.label!=null?axis.labelSize:
0,fullSize=_size+labelSize;fullSize>0&&(isVt?(plotWidCss-=fullSize,side==3?(plotLftCss+=fullSize,hasLftAxis=!0):hasRgtAxis=
!0):(plotHgtCss-=fullSize,side==0?(plotTopCss+=fullSize,hasTopAxis=!0):hasBtmAxis=!0))}}),sidesWithAxes[0]=hasTopAxis,sidesWithAxes[1]=
hasRgtAxis,sidesWithAxes[2]=hasBtmAxis,sidesWithAxes[3]=hasLftAxis,plotWidCss-=_padding[1]+_padding[3],plotLftCss+=_padding[3],
plotHgtCss-=_padding[2]+_padding[0],plotTopCss+=_padding[0]}function calcAxesRects(){let off1=plotLftCss+plotWidCss,off2=plotTopCss+
plotHgtCss,off3=plotLftCss,off0=plotTopCss;function incrOffset(side,size){switch(side){case 1:return off1+=size,off1-size;case 2:
return off2+=size,off2-size;case 3:return off3-=size,off3+size;case 0:return off0-=size,off0+size}}axes.forEach((axis,i)=>{
if(axis.show&&axis._show){let side=axis.side;axis._pos=incrOffset(side,axis._size),axis.label!=null&&(axis._lpos=incrOffset(
side,axis.labelSize))}})}if(cursor.dataIdx==null){let hov=cursor.hover,skip=hov.skip=new Set(hov.skip??[]);skip.add(void 0);
let prox=hov.prox=fnOrSelf(hov.prox),bias=hov.bias??=0;cursor.dataIdx=(self2,seriesIdx,cursorIdx,valAtPosX)=>{if(seriesIdx==
0)return cursorIdx;let idx2=cursorIdx,_prox=prox(self2,seriesIdx,cursorIdx,valAtPosX)??inf,withProx=_prox>=0&&_prox<inf,
xDim=scaleX.ori==0?plotWidCss:plotHgtCss,cursorLft=cursor.left,xValues=data[0],yValues=data[seriesIdx];if(skip.has(yValues[cursorIdx])){
idx2=null;let nonNullLft=null,nonNullRgt=null,j;if(bias==0||bias==-1)for(j=cursorIdx;nonNullLft==null&&j-- >0;)skip.has(
yValues[j])||(nonNullLft=j);if(bias==0||bias==1)for(j=cursorIdx;nonNullRgt==null&&j++<yValues.length;)skip.has(yValues[j])||
(nonNullRgt=j);if(nonNullLft!=null||nonNullRgt!=null)if(withProx){let lftPos=nonNullLft==null?-1/0:valToPosX(xValues[nonNullLft],
scaleX,xDim,0),rgtPos=nonNullRgt==null?1/0:valToPosX(xValues[nonNullRgt],scaleX,xDim,0),lftDelta=cursorLft-lftPos,rgtDelta=rgtPos-
cursorLft;lftDelta<=rgtDelta?lftDelta<=_prox&&(idx2=nonNullLft):rgtDelta<=_prox&&(idx2=nonNullRgt)}else idx2=nonNullRgt==
null?nonNullLft:nonNullLft==null?nonNullRgt:cursorIdx-nonNullLft<=nonNullRgt-cursorIdx?nonNullLft:nonNullRgt}else withProx&&
abs(cursorLft-valToPosX(xValues[cursorIdx],scaleX,xDim,0))>_prox&&(idx2=null);return idx2}}let setCursorEvent=e=>{cursor.
event=e};cursor.idxs=activeIdxs,cursor._lock=!1;let points3=cursor.points;points3.show=fnOrSelf(points3.show),points3.size=
fnOrSelf(points3.size),points3.stroke=fnOrSelf(points3.stroke),points3.width=fnOrSelf(points3.width),points3.fill=fnOrSelf(
points3.fill);let focus=self.focus=assign({},opts.focus||{alpha:.3},cursor.focus),cursorFocus=focus.prox>=0,cursorOnePt=cursorFocus&&
points3.one,cursorPts=[],cursorPtsLft=[],cursorPtsTop=[];function initCursorPt(s,si){let pt=points3.show(self,si);if(pt instanceof
HTMLElement)return addClass(pt,CURSOR_PT),addClass(pt,s.class),elTrans(pt,-10,-10,plotWidCss,plotHgtCss),over.insertBefore(
pt,cursorPts[si]),pt}function initSeries(s,i){if(mode==1||i>0){let isTime=mode==1&&scales[s.scale].time,sv=s.value;s.value=
isTime?isStr(sv)?timeSeriesVal(_tzDate,timeSeriesStamp(sv,_fmtDate)):sv||_timeSeriesVal:sv||numSeriesVal,s.label=s.label||
(isTime?timeSeriesLabel:numSeriesLabel)}if(cursorOnePt||i>0){s.width=s.width==null?1:s.width,s.paths=s.paths||linearPath||
retNull,s.fillTo=fnOrSelf(s.fillTo||seriesFillTo),s.pxAlign=+ifNull(s.pxAlign,pxAlign),s.pxRound=pxRoundGen(s.pxAlign),s.
stroke=fnOrSelf(s.stroke||null),s.fill=fnOrSelf(s.fill||null),s._stroke=s._fill=s._paths=s._focus=null;let _ptDia=ptDia(
max(1,s.width),1),points4=s.points=assign({},{size:_ptDia,width:max(1,_ptDia*.2),stroke:s.stroke,space:_ptDia*2,paths:pointsPath,
_stroke:null,_fill:null},s.points);points4.show=fnOrSelf(points4.show),points4.filter=fnOrSelf(points4.filter),points4.fill=
fnOrSelf(points4.fill),points4.stroke=fnOrSelf(points4.stroke),points4.paths=fnOrSelf(points4.paths),points4.pxAlign=s.pxAlign}
if(showLegend){let rowCells=initLegendRow(s,i);legendRows.splice(i,0,rowCells[0]),legendCells.splice(i,0,rowCells[1]),legend.
values.push(null)}if(showCursor){activeIdxs.splice(i,0,null);let pt=null;cursorOnePt?i==0&&(pt=initCursorPt(s,i)):i>0&&(pt=
initCursorPt(s,i)),cursorPts.splice(i,0,pt),cursorPtsLft.splice(i,0,0),cursorPtsTop.splice(i,0,0)}fire("addSeries",i)}function addSeries(opts2,si){
si=si??series.length,opts2=mode==1?setDefault(opts2,si,xSeriesOpts,ySeriesOpts):setDefault(opts2,si,{},xySeriesOpts),series.
splice(si,0,opts2),initSeries(series[si],si)}self.addSeries=addSeries;function delSeries(i){if(series.splice(i,1),showLegend){
legend.values.splice(i,1),legendCells.splice(i,1);let tr=legendRows.splice(i,1)[0];offMouse(null,tr.firstChild),tr.remove()}
showCursor&&(activeIdxs.splice(i,1),cursorPts.splice(i,1)[0].remove(),cursorPtsLft.splice(i,1),cursorPtsTop.splice(i,1)),
fire("delSeries",i)}self.delSeries=delSeries;let sidesWithAxes=[!1,!1,!1,!1];function initAxis(axis,i){if(axis._show=axis.
show,axis.show){let isVt=axis.side%2,sc=scales[axis.scale];sc==null&&(axis.scale=isVt?series[1].scale:xScaleKey,sc=scales[axis.
scale]);let isTime=sc.time;axis.size=fnOrSelf(axis.size),axis.space=fnOrSelf(axis.space),axis.rotate=fnOrSelf(axis.rotate),
isArr(axis.incrs)&&axis.incrs.forEach(incr=>{!fixedDec.has(incr)&&fixedDec.set(incr,guessDec(incr))}),axis.incrs=fnOrSelf(
axis.incrs||(sc.distr==2?wholeIncrs:isTime?ms==1?timeIncrsMs:timeIncrsS:numIncrs)),axis.splits=fnOrSelf(axis.splits||(isTime&&
sc.distr==1?_timeAxisSplits:sc.distr==3?logAxisSplits:sc.distr==4?asinhAxisSplits:numAxisSplits)),axis.stroke=fnOrSelf(axis.
stroke),axis.grid.stroke=fnOrSelf(axis.grid.stroke),axis.ticks.stroke=fnOrSelf(axis.ticks.stroke),axis.border.stroke=fnOrSelf(
axis.border.stroke);let av=axis.values;axis.values=isArr(av)&&!isArr(av[0])?fnOrSelf(av):isTime?isArr(av)?timeAxisVals(_tzDate,
timeAxisStamps(av,_fmtDate)):isStr(av)?timeAxisVal(_tzDate,av):av||_timeAxisVals:av||numAxisVals,axis.filter=fnOrSelf(axis.
filter||(sc.distr>=3&&sc.log==10?log10AxisValsFilt:sc.distr==3&&sc.log==2?log2AxisValsFilt:retArg1)),axis.font=pxRatioFont(
axis.font),axis.labelFont=pxRatioFont(axis.labelFont),axis._size=axis.size(self,null,i,0),axis._space=axis._rotate=axis.
_incrs=axis._found=axis._splits=axis._values=null,axis._size>0&&(sidesWithAxes[i]=!0,axis._el=placeDiv(AXIS,wrap))}}function autoPadSide(self2,side,sidesWithAxes2,cycleNum){
let[hasTopAxis,hasRgtAxis,hasBtmAxis,hasLftAxis]=sidesWithAxes2,ori=side%2,size=0;return ori==0&&(hasLftAxis||hasRgtAxis)&&
(size=side==0&&!hasTopAxis||side==2&&!hasBtmAxis?round(xAxisOpts.size/3):0),ori==1&&(hasTopAxis||hasBtmAxis)&&(size=side==
1&&!hasRgtAxis||side==3&&!hasLftAxis?round(yAxisOpts.size/2):0),size}let padding=self.padding=(opts.padding||[autoPadSide,
autoPadSide,autoPadSide,autoPadSide]).map(p=>fnOrSelf(ifNull(p,autoPadSide))),_padding=self._padding=padding.map((p,i)=>p(
self,i,sidesWithAxes,0)),dataLen,i0=null,i1=null,idxs=mode==1?series[0].idxs:null,data0=null,viaAutoScaleX=!1;function setData(_data,_resetScales){
if(data=_data??[],self.data=self._data=data,mode==2){dataLen=0;for(let i=1;i<series.length;i++)dataLen+=data[i][0].length}else{
data.length==0&&(self.data=self._data=data=[[]]),data0=data[0],dataLen=data0.length;let scaleData=data;if(xScaleDistr==2){
scaleData=data.slice();let _data0=scaleData[0]=Array(dataLen);for(let i=0;i<dataLen;i++)_data0[i]=i}self._data=data=scaleData}
if(resetYSeries(!0),fire("setData"),xScaleDistr==2&&(shouldConvergeSize=!0),_resetScales!==!1){let xsc=scaleX;xsc.auto(self,
viaAutoScaleX)?autoScaleX():_setScale(xScaleKey,xsc.min,xsc.max),shouldSetCursor=shouldSetCursor||cursor.left>=0,shouldSetLegend=
!0,commit()}}self.setData=setData;function autoScaleX(){viaAutoScaleX=!0;let _min,_max;mode==1&&(dataLen>0?(i0=idxs[0]=0,
i1=idxs[1]=dataLen-1,_min=data[0][i0],_max=data[0][i1],xScaleDistr==2?(_min=i0,_max=i1):_min==_max&&(xScaleDistr==3?[_min,
_max]=rangeLog(_min,_min,scaleX.log,!1):xScaleDistr==4?[_min,_max]=rangeAsinh(_min,_min,scaleX.log,!1):scaleX.time?_max=
_min+round(86400/ms):[_min,_max]=rangeNum(_min,_max,rangePad,!0))):(i0=idxs[0]=_min=null,i1=idxs[1]=_max=null)),_setScale(
xScaleKey,_min,_max)}let ctxStroke,ctxFill,ctxWidth,ctxDash,ctxJoin,ctxCap,ctxFont,ctxAlign,ctxBaseline,ctxAlpha;function setCtxStyle(stroke,width,dash,cap,fill,join2){
stroke??=transparent,dash??=EMPTY_ARR,cap??="butt",fill??=transparent,join2??="round",stroke!=ctxStroke&&(ctx.strokeStyle=
ctxStroke=stroke),fill!=ctxFill&&(ctx.fillStyle=ctxFill=fill),width!=ctxWidth&&(ctx.lineWidth=ctxWidth=width),join2!=ctxJoin&&
(ctx.lineJoin=ctxJoin=join2),cap!=ctxCap&&(ctx.lineCap=ctxCap=cap),dash!=ctxDash&&ctx.setLineDash(ctxDash=dash)}function setFontStyle(font2,fill,align,baseline){
fill!=ctxFill&&(ctx.fillStyle=ctxFill=fill),font2!=ctxFont&&(ctx.font=ctxFont=font2),align!=ctxAlign&&(ctx.textAlign=ctxAlign=
align),baseline!=ctxBaseline&&(ctx.textBaseline=ctxBaseline=baseline)}function accScale(wsc,psc,facet2,data2,sorted=0){if(data2.
length>0&&wsc.auto(self,viaAutoScaleX)&&(psc==null||psc.min==null)){let _i0=ifNull(i0,0),_i1=ifNull(i1,data2.length-1),minMax=facet2.
min==null?getMinMax(data2,_i0,_i1,sorted,wsc.distr==3):[facet2.min,facet2.max];wsc.min=min(wsc.min,facet2.min=minMax[0]),
wsc.max=max(wsc.max,facet2.max=minMax[1])}}let AUTOSCALE={min:null,max:null};function setScales(){for(let k in scales){let sc=scales[k];
pendScales[k]==null&&(sc.min==null||pendScales[xScaleKey]!=null&&sc.auto(self,viaAutoScaleX))&&(pendScales[k]=AUTOSCALE)}
for(let k in scales){let sc=scales[k];pendScales[k]==null&&sc.from!=null&&pendScales[sc.from]!=null&&(pendScales[k]=AUTOSCALE)}
pendScales[xScaleKey]!=null&&resetYSeries(!0);let wipScales={};for(let k in pendScales){let psc=pendScales[k];if(psc!=null){
let wsc=wipScales[k]=copy(scales[k],fastIsObj);if(psc.min!=null)assign(wsc,psc);else if(k!=xScaleKey||mode==2)if(dataLen==
0&&wsc.from==null){let minMax=wsc.range(self,null,null,k);wsc.min=minMax[0],wsc.max=minMax[1]}else wsc.min=inf,wsc.max=-inf}}
if(dataLen>0){series.forEach((s,i)=>{if(mode==1){let k=s.scale,psc=pendScales[k];if(psc==null)return;let wsc=wipScales[k];
if(i==0){let minMax=wsc.range(self,wsc.min,wsc.max,k);wsc.min=minMax[0],wsc.max=minMax[1],i0=closestIdx(wsc.min,data[0]),
i1=closestIdx(wsc.max,data[0]),i1-i0>1&&(data[0][i0]<wsc.min&&i0++,data[0][i1]>wsc.max&&i1--),s.min=data0[i0],s.max=data0[i1]}else
s.show&&s.auto&&accScale(wsc,psc,s,data[i],s.sorted);s.idxs[0]=i0,s.idxs[1]=i1}else if(i>0&&s.show&&s.auto){let[xFacet,yFacet]=s.
facets,xScaleKey2=xFacet.scale,yScaleKey=yFacet.scale,[xData,yData]=data[i],wscx=wipScales[xScaleKey2],wscy=wipScales[yScaleKey];
wscx!=null&&accScale(wscx,pendScales[xScaleKey2],xFacet,xData,xFacet.sorted),wscy!=null&&accScale(wscy,pendScales[yScaleKey],
yFacet,yData,yFacet.sorted),s.min=yFacet.min,s.max=yFacet.max}});for(let k in wipScales){let wsc=wipScales[k],psc=pendScales[k];
if(wsc.from==null&&(psc==null||psc.min==null)){let minMax=wsc.range(self,wsc.min==inf?null:wsc.min,wsc.max==-inf?null:wsc.
max,k);wsc.min=minMax[0],wsc.max=minMax[1]}}}for(let k in wipScales){let wsc=wipScales[k];if(wsc.from!=null){let base=wipScales[wsc.
from];if(base.min==null)wsc.min=wsc.max=null;else{let minMax=wsc.range(self,base.min,base.max,k);wsc.min=minMax[0],wsc.max=
minMax[1]}}}let changed={},anyChanged=!1;for(let k in wipScales){let wsc=wipScales[k],sc=scales[k];if(sc.min!=wsc.min||sc.
max!=wsc.max){sc.min=wsc.min,sc.max=wsc.max;let distr=sc.distr;sc._min=distr==3?log10(sc.min):distr==4?asinh(sc.min,sc.asinh):
distr==100?sc.fwd(sc.min):sc.min,sc._max=distr==3?log10(sc.max):distr==4?asinh(sc.max,sc.asinh):distr==100?sc.fwd(sc.max):
sc.max,changed[k]=anyChanged=!0}}if(anyChanged){series.forEach((s,i)=>{mode==2?i>0&&changed.y&&(s._paths=null):changed[s.
scale]&&(s._paths=null)});for(let k in changed)shouldConvergeSize=!0,fire("setScale",k);showCursor&&cursor.left>=0&&(shouldSetCursor=
shouldSetLegend=!0)}for(let k in pendScales)pendScales[k]=null}function getOuterIdxs(ydata){let _i0=clamp(i0-1,0,dataLen-
1),_i1=clamp(i1+1,0,dataLen-1);for(;ydata[_i0]==null&&_i0>0;)_i0--;for(;ydata[_i1]==null&&_i1<dataLen-1;)_i1++;return[_i0,
_i1]}function drawSeries(){if(dataLen>0){let shouldAlpha=series.some(s=>s._focus)&&ctxAlpha!=focus.alpha;shouldAlpha&&(ctx.
globalAlpha=ctxAlpha=focus.alpha),series.forEach((s,i)=>{if(i>0&&s.show&&(cacheStrokeFill(i,!1),cacheStrokeFill(i,!0),s.
_paths==null)){let _ctxAlpha=ctxAlpha;ctxAlpha!=s.alpha&&(ctx.globalAlpha=ctxAlpha=s.alpha);let _idxs=mode==2?[0,data[i][0].
length-1]:getOuterIdxs(data[i]);s._paths=s.paths(self,i,_idxs[0],_idxs[1]),ctxAlpha!=_ctxAlpha&&(ctx.globalAlpha=ctxAlpha=
_ctxAlpha)}}),series.forEach((s,i)=>{if(i>0&&s.show){let _ctxAlpha=ctxAlpha;ctxAlpha!=s.alpha&&(ctx.globalAlpha=ctxAlpha=
s.alpha),s._paths!=null&&drawPath(i,!1);{let _gaps=s._paths!=null?s._paths.gaps:null,show2=s.points.show(self,i,i0,i1,_gaps),
idxs2=s.points.filter(self,i,show2,_gaps);(show2||idxs2)&&(s.points._paths=s.points.paths(self,i,i0,i1,idxs2),drawPath(i,
!0))}ctxAlpha!=_ctxAlpha&&(ctx.globalAlpha=ctxAlpha=_ctxAlpha),fire("drawSeries",i)}}),shouldAlpha&&(ctx.globalAlpha=ctxAlpha=
1)}}function cacheStrokeFill(si,_points){let s=_points?series[si].points:series[si];s._stroke=s.stroke(self,si),s._fill=
s.fill(self,si)}function drawPath(si,_points){let s=_points?series[si].points:series[si],{stroke,fill,clip:gapsClip,flags,
_stroke:strokeStyle=s._stroke,_fill:fillStyle=s._fill,_width:width=s.width}=s._paths;width=roundDec(width*pxRatio,3);let boundsClip=null,
offset=width%2/2;_points&&fillStyle==null&&(fillStyle=width>0?"#fff":strokeStyle);let _pxAlign=s.pxAlign==1&&offset>0;if(_pxAlign&&
ctx.translate(offset,offset),!_points){let lft=plotLft-width/2,top=plotTop-width/2,wid=plotWid+width,hgt=plotHgt+width;boundsClip=
new Path2D,boundsClip.rect(lft,top,wid,hgt)}_points?strokeFill(strokeStyle,width,s.dash,s.cap,fillStyle,stroke,fill,flags,
gapsClip):fillStroke(si,strokeStyle,width,s.dash,s.cap,fillStyle,stroke,fill,flags,boundsClip,gapsClip),_pxAlign&&ctx.translate(
-offset,-offset)}function fillStroke(si,strokeStyle,lineWidth,lineDash,lineCap,fillStyle,strokePath,fillPath,flags,boundsClip,gapsClip){
let didStrokeFill=!1;flags!=0&&bands.forEach((b,bi)=>{if(b.series[0]==si){let lowerEdge=series[b.series[1]],lowerData=data[b.
series[1]],bandClip=(lowerEdge._paths||EMPTY_OBJ).band;isArr(bandClip)&&(bandClip=b.dir==1?bandClip[0]:bandClip[1]);let gapsClip2,
_fillStyle=null;lowerEdge.show&&bandClip&&hasData(lowerData,i0,i1)?(_fillStyle=b.fill(self,bi)||fillStyle,gapsClip2=lowerEdge.
_paths.clip):bandClip=null,strokeFill(strokeStyle,lineWidth,lineDash,lineCap,_fillStyle,strokePath,fillPath,flags,boundsClip,
gapsClip,gapsClip2,bandClip),didStrokeFill=!0}}),didStrokeFill||strokeFill(strokeStyle,lineWidth,lineDash,lineCap,fillStyle,
strokePath,fillPath,flags,boundsClip,gapsClip)}let CLIP_FILL_STROKE=BAND_CLIP_FILL|BAND_CLIP_STROKE;function strokeFill(strokeStyle,lineWidth,lineDash,lineCap,fillStyle,strokePath,fillPath,flags,boundsClip,gapsClip,gapsClip2,bandClip){
setCtxStyle(strokeStyle,lineWidth,lineDash,lineCap,fillStyle),(boundsClip||gapsClip||bandClip)&&(ctx.save(),boundsClip&&
ctx.clip(boundsClip),gapsClip&&ctx.clip(gapsClip)),bandClip?(flags&CLIP_FILL_STROKE)==CLIP_FILL_STROKE?(ctx.clip(bandClip),
gapsClip2&&ctx.clip(gapsClip2),doFill(fillStyle,fillPath),doStroke(strokeStyle,strokePath,lineWidth)):flags&BAND_CLIP_STROKE?
(doFill(fillStyle,fillPath),ctx.clip(bandClip),doStroke(strokeStyle,strokePath,lineWidth)):flags&BAND_CLIP_FILL&&(ctx.save(),
ctx.clip(bandClip),gapsClip2&&ctx.clip(gapsClip2),doFill(fillStyle,fillPath),ctx.restore(),doStroke(strokeStyle,strokePath,
lineWidth)):(doFill(fillStyle,fillPath),doStroke(strokeStyle,strokePath,lineWidth)),(boundsClip||gapsClip||bandClip)&&ctx.
restore()}function doStroke(strokeStyle,strokePath,lineWidth){lineWidth>0&&(strokePath instanceof Map?strokePath.forEach(
(strokePath2,strokeStyle2)=>{ctx.strokeStyle=ctxStroke=strokeStyle2,ctx.stroke(strokePath2)}):strokePath!=null&&strokeStyle&&
ctx.stroke(strokePath))}function doFill(fillStyle,fillPath){fillPath instanceof Map?fillPath.forEach((fillPath2,fillStyle2)=>{
ctx.fillStyle=ctxFill=fillStyle2,ctx.fill(fillPath2)}):fillPath!=null&&fillStyle&&ctx.fill(fillPath)}function getIncrSpace(axisIdx,min2,max2,fullDim){
let axis=axes[axisIdx],incrSpace;if(fullDim<=0)incrSpace=[0,0];else{let minSpace=axis._space=axis.space(self,axisIdx,min2,
max2,fullDim),incrs=axis._incrs=axis.incrs(self,axisIdx,min2,max2,fullDim,minSpace);incrSpace=findIncr(min2,max2,incrs,fullDim,
minSpace)}return axis._found=incrSpace}function drawOrthoLines(offs,filts,ori,side,pos0,len,width,stroke,dash,cap){let offset=width%
2/2;pxAlign==1&&ctx.translate(offset,offset),setCtxStyle(stroke,width,dash,cap,stroke),ctx.beginPath();let x0,y0,x1,y1,pos1=pos0+
(side==0||side==3?-len:len);ori==0?(y0=pos0,y1=pos1):(x0=pos0,x1=pos1);for(let i=0;i<offs.length;i++)filts[i]!=null&&(ori==
0?x0=x1=offs[i]:y0=y1=offs[i],ctx.moveTo(x0,y0),ctx.lineTo(x1,y1));ctx.stroke(),pxAlign==1&&ctx.translate(-offset,-offset)}
function axesCalc(cycleNum){let converged=!0;return axes.forEach((axis,i)=>{if(!axis.show)return;let scale=scales[axis.scale];
if(scale.min==null){axis._show&&(converged=!1,axis._show=!1,resetYSeries(!1));return}else axis._show||(converged=!1,axis.
_show=!0,resetYSeries(!1));let side=axis.side,ori=side%2,{min:min2,max:max2}=scale,[_incr,_space]=getIncrSpace(i,min2,max2,
ori==0?plotWidCss:plotHgtCss);if(_space==0)return;let forceMin=scale.distr==2,_splits=axis._splits=axis.splits(self,i,min2,
max2,_incr,_space,forceMin),splits=scale.distr==2?_splits.map(i2=>data0[i2]):_splits,incr=scale.distr==2?data0[_splits[1]]-
data0[_splits[0]]:_incr,values=axis._values=axis.values(self,axis.filter(self,splits,i,_space,incr),i,_space,incr);axis.
_rotate=side==2?axis.rotate(self,values,i,_space):0;let oldSize=axis._size;axis._size=ceil(axis.size(self,values,i,cycleNum)),
oldSize!=null&&axis._size!=oldSize&&(converged=!1)}),converged}function paddingCalc(cycleNum){let converged=!0;return padding.
forEach((p,i)=>{let _p=p(self,i,sidesWithAxes,cycleNum);_p!=_padding[i]&&(converged=!1),_padding[i]=_p}),converged}function drawAxesGrid(){
for(let i=0;i<axes.length;i++){let axis=axes[i];if(!axis.show||!axis._show)continue;let side=axis.side,ori=side%2,x,y,fillStyle=axis.
stroke(self,i),shiftDir=side==0||side==3?-1:1,[_incr,_space]=axis._found;if(axis.label!=null){let shiftAmt2=axis.labelGap*
shiftDir,baseLpos=round((axis._lpos+shiftAmt2)*pxRatio);setFontStyle(axis.labelFont[0],fillStyle,"center",side==2?"top":
BOTTOM),ctx.save(),ori==1?(x=y=0,ctx.translate(baseLpos,round(plotTop+plotHgt/2)),ctx.rotate((side==3?-PI:PI)/2)):(x=round(
plotLft+plotWid/2),y=baseLpos);let _label=isFn(axis.label)?axis.label(self,i,_incr,_space):axis.label;ctx.fillText(_label,
x,y),ctx.restore()}if(_space==0)continue;let scale=scales[axis.scale],plotDim=ori==0?plotWid:plotHgt,plotOff=ori==0?plotLft:
plotTop,_splits=axis._splits,splits=scale.distr==2?_splits.map(i2=>data0[i2]):_splits,incr=scale.distr==2?data0[_splits[1]]-
data0[_splits[0]]:_incr,ticks2=axis.ticks,border2=axis.border,_tickSize=ticks2.show?ticks2.size:0,tickSize=round(_tickSize*
pxRatio),axisGap=round((axis.alignTo==2?axis._size-_tickSize-axis.gap:axis.gap)*pxRatio),angle=axis._rotate*-PI/180,basePos=pxRound(
axis._pos*pxRatio),shiftAmt=(tickSize+axisGap)*shiftDir,finalPos=basePos+shiftAmt;y=ori==0?finalPos:0,x=ori==1?finalPos:
0;let font2=axis.font[0],textAlign=axis.align==1?LEFT:axis.align==2?RIGHT:angle>0?LEFT:angle<0?RIGHT:ori==0?"center":side==
3?RIGHT:LEFT,textBaseline=angle||ori==1?"middle":side==2?"top":BOTTOM;setFontStyle(font2,fillStyle,textAlign,textBaseline);
let lineHeight=axis.font[1]*axis.lineGap,canOffs=_splits.map(val=>pxRound(getPos(val,scale,plotDim,plotOff))),_values=axis.
_values;for(let i2=0;i2<_values.length;i2++){let val=_values[i2];if(val!=null){ori==0?x=canOffs[i2]:y=canOffs[i2],val=""+
val;let _parts=val.indexOf(`
`)==-1?[val]:val.split(/\n/gm);for(let j=0;j<_parts.length;j++){let text2=_parts[j];angle?(ctx.save(),ctx.translate(x,y+
j*lineHeight),ctx.rotate(angle),ctx.fillText(text2,0,0),ctx.restore()):ctx.fillText(text2,x,y+j*lineHeight)}}}ticks2.show&&
drawOrthoLines(canOffs,ticks2.filter(self,splits,i,_space,incr),ori,side,basePos,tickSize,roundDec(ticks2.width*pxRatio,
3),ticks2.stroke(self,i),ticks2.dash,ticks2.cap);let grid2=axis.grid;grid2.show&&drawOrthoLines(canOffs,grid2.filter(self,
splits,i,_space,incr),ori,ori==0?2:1,ori==0?plotTop:plotLft,ori==0?plotHgt:plotWid,roundDec(grid2.width*pxRatio,3),grid2.
stroke(self,i),grid2.dash,grid2.cap),border2.show&&drawOrthoLines([basePos],[1],ori==0?1:0,ori==0?1:2,ori==1?plotTop:plotLft,
ori==1?plotHgt:plotWid,roundDec(border2.width*pxRatio,3),border2.stroke(self,i),border2.dash,border2.cap)}fire("drawAxes")}
function resetYSeries(minMax){series.forEach((s,i)=>{i>0&&(s._paths=null,minMax&&(mode==1?(s.min=null,s.max=null):s.facets.
forEach(f=>{f.min=null,f.max=null})))})}let queuedCommit=!1,deferHooks=!1,hooksQueue=[];function flushHooks(){deferHooks=
!1;for(let i=0;i<hooksQueue.length;i++)fire(...hooksQueue[i]);hooksQueue.length=0}function commit(){queuedCommit||(microTask(
_commit),queuedCommit=!0)}function batch2(fn,_deferHooks=!1){queuedCommit=!0,deferHooks=_deferHooks,fn(self),_commit(),_deferHooks&&
hooksQueue.length>0&&queueMicrotask(flushHooks)}self.batch=batch2;function _commit(){if(shouldSetScales&&(setScales(),shouldSetScales=
!1),shouldConvergeSize&&(convergeSize(),shouldConvergeSize=!1),shouldSetSize){if(setStylePx(under,LEFT,plotLftCss),setStylePx(
under,"top",plotTopCss),setStylePx(under,WIDTH,plotWidCss),setStylePx(under,HEIGHT,plotHgtCss),setStylePx(over,LEFT,plotLftCss),
setStylePx(over,"top",plotTopCss),setStylePx(over,WIDTH,plotWidCss),setStylePx(over,HEIGHT,plotHgtCss),setStylePx(wrap,WIDTH,
fullWidCss),setStylePx(wrap,HEIGHT,fullHgtCss),can.width=round(fullWidCss*pxRatio),can.height=round(fullHgtCss*pxRatio),
axes.forEach(({_el,_show,_size,_pos,side})=>{if(_el!=null)if(_show){let posOffset=side===3||side===0?_size:0,isVt=side%2==
1;setStylePx(_el,isVt?"left":"top",_pos-posOffset),setStylePx(_el,isVt?"width":"height",_size),setStylePx(_el,isVt?"top":
"left",isVt?plotTopCss:plotLftCss),setStylePx(_el,isVt?"height":"width",isVt?plotHgtCss:plotWidCss),remClass(_el,OFF)}else
addClass(_el,OFF)}),ctxStroke=ctxFill=ctxWidth=ctxJoin=ctxCap=ctxFont=ctxAlign=ctxBaseline=ctxDash=null,ctxAlpha=1,syncRect(
!0),plotLftCss!=_plotLftCss||plotTopCss!=_plotTopCss||plotWidCss!=_plotWidCss||plotHgtCss!=_plotHgtCss){resetYSeries(!1);
let pctWid=plotWidCss/_plotWidCss,pctHgt=plotHgtCss/_plotHgtCss;if(showCursor&&!shouldSetCursor&&cursor.left>=0){cursor.
left*=pctWid,cursor.top*=pctHgt,vCursor&&elTrans(vCursor,round(cursor.left),0,plotWidCss,plotHgtCss),hCursor&&elTrans(hCursor,
0,round(cursor.top),plotWidCss,plotHgtCss);for(let i=0;i<cursorPts.length;i++){let pt=cursorPts[i];pt!=null&&(cursorPtsLft[i]*=
pctWid,cursorPtsTop[i]*=pctHgt,elTrans(pt,ceil(cursorPtsLft[i]),ceil(cursorPtsTop[i]),plotWidCss,plotHgtCss))}}if(select2.
show&&!shouldSetSelect&&select2.left>=0&&select2.width>0){select2.left*=pctWid,select2.width*=pctWid,select2.top*=pctHgt,
select2.height*=pctHgt;for(let prop in _hideProps)setStylePx(selectDiv,prop,select2[prop])}_plotLftCss=plotLftCss,_plotTopCss=
plotTopCss,_plotWidCss=plotWidCss,_plotHgtCss=plotHgtCss}fire("setSize"),shouldSetSize=!1}fullWidCss>0&&fullHgtCss>0&&(ctx.
clearRect(0,0,can.width,can.height),fire("drawClear"),drawOrder.forEach(fn=>fn()),fire("draw")),select2.show&&shouldSetSelect&&
(setSelect(select2),shouldSetSelect=!1),showCursor&&shouldSetCursor&&(updateCursor(null,!0,!1),shouldSetCursor=!1),legend.
show&&legend.live&&shouldSetLegend&&(setLegend(),shouldSetLegend=!1),ready||(ready=!0,self.status=1,fire("ready")),viaAutoScaleX=
!1,queuedCommit=!1}self.redraw=(rebuildPaths,recalcAxes)=>{shouldConvergeSize=recalcAxes||!1,rebuildPaths!==!1?_setScale(
xScaleKey,scaleX.min,scaleX.max):commit()};function setScale(key2,opts2){let sc=scales[key2];if(sc.from==null){if(dataLen==
0){let minMax=sc.range(self,opts2.min,opts2.max,key2);opts2.min=minMax[0],opts2.max=minMax[1]}if(opts2.min>opts2.max){let _min=opts2.
min;opts2.min=opts2.max,opts2.max=_min}if(dataLen>1&&opts2.min!=null&&opts2.max!=null&&opts2.max-opts2.min<1e-16)return;
key2==xScaleKey&&sc.distr==2&&dataLen>0&&(opts2.min=closestIdx(opts2.min,data[0]),opts2.max=closestIdx(opts2.max,data[0]),
opts2.min==opts2.max&&opts2.max++),pendScales[key2]=opts2,shouldSetScales=!0,commit()}}self.setScale=setScale;let xCursor,
yCursor,vCursor,hCursor,rawMouseLeft0,rawMouseTop0,mouseLeft0,mouseTop0,rawMouseLeft1,rawMouseTop1,mouseLeft1,mouseTop1,
dragging=!1,drag=cursor.drag,dragX=drag.x,dragY=drag.y;showCursor&&(cursor.x&&(xCursor=placeDiv(CURSOR_X,over)),cursor.y&&
(yCursor=placeDiv(CURSOR_Y,over)),scaleX.ori==0?(vCursor=xCursor,hCursor=yCursor):(vCursor=yCursor,hCursor=xCursor),mouseLeft1=
cursor.left,mouseTop1=cursor.top);let select2=self.select=assign({show:!0,over:!0,left:0,width:0,top:0,height:0},opts.select),
selectDiv=select2.show?placeDiv(SELECT,select2.over?over:under):null;function setSelect(opts2,_fire){if(select2.show){for(let prop in opts2)
select2[prop]=opts2[prop],prop in _hideProps&&setStylePx(selectDiv,prop,opts2[prop]);_fire!==!1&&fire("setSelect")}}self.
setSelect=setSelect;function toggleDOM(i){if(series[i].show)showLegend&&remClass(legendRows[i],OFF);else if(showLegend&&
addClass(legendRows[i],OFF),showCursor){let pt=cursorOnePt?cursorPts[0]:cursorPts[i];pt!=null&&elTrans(pt,-10,-10,plotWidCss,
plotHgtCss)}}function _setScale(key2,min2,max2){setScale(key2,{min:min2,max:max2})}function setSeries(i,opts2,_fire,_pub){
opts2.focus!=null&&setFocus(i),opts2.show!=null&&series.forEach((s,si)=>{si>0&&(i==si||i==null)&&(s.show=opts2.show,toggleDOM(
si),mode==2?(_setScale(s.facets[0].scale,null,null),_setScale(s.facets[1].scale,null,null)):_setScale(s.scale,null,null),
commit())}),_fire!==!1&&fire("setSeries",i,opts2),_pub&&pubSync("setSeries",self,i,opts2)}self.setSeries=setSeries;function setBand(bi,opts2){
assign(bands[bi],opts2)}function addBand(opts2,bi){opts2.fill=fnOrSelf(opts2.fill||null),opts2.dir=ifNull(opts2.dir,-1),
bi=bi??bands.length,bands.splice(bi,0,opts2)}function delBand(bi){bi==null?bands.length=0:bands.splice(bi,1)}self.addBand=
addBand,self.setBand=setBand,self.delBand=delBand;function setAlpha(i,value){series[i].alpha=value,showCursor&&cursorPts[i]!=
null&&(cursorPts[i].style.opacity=value),showLegend&&legendRows[i]&&(legendRows[i].style.opacity=value)}let closestDist,
closestSeries,focusedSeries,FOCUS_TRUE={focus:!0};function setFocus(i){if(i!=focusedSeries){let allFocused=i==null,_setAlpha=focus.
alpha!=1;series.forEach((s,i2)=>{if(mode==1||i2>0){let isFocused=allFocused||i2==0||i2==i;s._focus=allFocused?null:isFocused,
_setAlpha&&setAlpha(i2,isFocused?1:focus.alpha)}}),focusedSeries=i,_setAlpha&&commit()}}showLegend&&cursorFocus&&onMouse(
mouseleave,legendTable,e=>{cursor._lock||(setCursorEvent(e),focusedSeries!=null&&setSeries(null,FOCUS_TRUE,!0,syncOpts.setSeries))});
function posToVal(pos,scale,can2){let sc=scales[scale];can2&&(pos=pos/pxRatio-(sc.ori==1?plotTopCss:plotLftCss));let dim=plotWidCss;
sc.ori==1&&(dim=plotHgtCss,pos=dim-pos),sc.dir==-1&&(pos=dim-pos);let _min=sc._min,_max=sc._max,pct=pos/dim,sv=_min+(_max-
_min)*pct,distr=sc.distr;return distr==3?pow(10,sv):distr==4?sinh(sv,sc.asinh):distr==100?sc.bwd(sv):sv}function closestIdxFromXpos(pos,can2){
let v=posToVal(pos,xScaleKey,can2);return closestIdx(v,data[0],i0,i1)}self.valToIdx=val=>closestIdx(val,data[0]),self.posToIdx=
closestIdxFromXpos,self.posToVal=posToVal,self.valToPos=(val,scale,can2)=>scales[scale].ori==0?getHPos(val,scales[scale],
can2?plotWid:plotWidCss,can2?plotLft:0):getVPos(val,scales[scale],can2?plotHgt:plotHgtCss,can2?plotTop:0),self.setCursor=
(opts2,_fire,_pub)=>{mouseLeft1=opts2.left,mouseTop1=opts2.top,updateCursor(null,_fire,_pub)};function setSelH(off2,dim){
setStylePx(selectDiv,LEFT,select2.left=off2),setStylePx(selectDiv,WIDTH,select2.width=dim)}function setSelV(off2,dim){setStylePx(
selectDiv,"top",select2.top=off2),setStylePx(selectDiv,HEIGHT,select2.height=dim)}let setSelX=scaleX.ori==0?setSelH:setSelV,
setSelY=scaleX.ori==1?setSelH:setSelV;function syncLegend(){if(showLegend&&legend.live)for(let i=mode==2?1:0;i<series.length;i++){
if(i==0&&multiValLegend)continue;let vals=legend.values[i],j=0;for(let k in vals)legendCells[i][j++].firstChild.nodeValue=
vals[k]}}function setLegend(opts2,_fire){if(opts2!=null&&(opts2.idxs?opts2.idxs.forEach((didx,sidx)=>{activeIdxs[sidx]=didx}):
isUndef(opts2.idx)||activeIdxs.fill(opts2.idx),legend.idx=activeIdxs[0]),showLegend&&legend.live){for(let sidx=0;sidx<series.
length;sidx++)(sidx>0||mode==1&&!multiValLegend)&&setLegendValues(sidx,activeIdxs[sidx]);syncLegend()}shouldSetLegend=!1,
_fire!==!1&&fire("setLegend")}self.setLegend=setLegend;function setLegendValues(sidx,idx){let s=series[sidx],src=sidx==0&&
xScaleDistr==2?data0:data[sidx],val;multiValLegend?val=s.values(self,sidx,idx)??NULL_LEGEND_VALUES:(val=s.value(self,idx==
null?null:src[idx],sidx,idx),val=val==null?NULL_LEGEND_VALUES:{_:val}),legend.values[sidx]=val}function updateCursor(src,_fire,_pub){
rawMouseLeft1=mouseLeft1,rawMouseTop1=mouseTop1,[mouseLeft1,mouseTop1]=cursor.move(self,mouseLeft1,mouseTop1),cursor.left=
mouseLeft1,cursor.top=mouseTop1,showCursor&&(vCursor&&elTrans(vCursor,round(mouseLeft1),0,plotWidCss,plotHgtCss),hCursor&&
elTrans(hCursor,0,round(mouseTop1),plotWidCss,plotHgtCss));let idx,noDataInRange=i0>i1;closestDist=inf,closestSeries=null;
let xDim=scaleX.ori==0?plotWidCss:plotHgtCss,yDim=scaleX.ori==1?plotWidCss:plotHgtCss;if(mouseLeft1<0||dataLen==0||noDataInRange){
idx=cursor.idx=null;for(let i=0;i<series.length;i++){let pt=cursorPts[i];pt!=null&&elTrans(pt,-10,-10,plotWidCss,plotHgtCss)}
cursorFocus&&setSeries(null,FOCUS_TRUE,!0,src==null&&syncOpts.setSeries),legend.live&&(activeIdxs.fill(idx),shouldSetLegend=
!0)}else{let mouseXPos,valAtPosX,xPos;mode==1&&(mouseXPos=scaleX.ori==0?mouseLeft1:mouseTop1,valAtPosX=posToVal(mouseXPos,
xScaleKey),idx=cursor.idx=closestIdx(valAtPosX,data[0],i0,i1),xPos=valToPosX(data[0][idx],scaleX,xDim,0));let _ptLft=-10,
_ptTop=-10,_ptWid=0,_ptHgt=0,_centered=!0,_ptFill="",_ptStroke="";for(let i=mode==2?1:0;i<series.length;i++){let s=series[i],
idx1=activeIdxs[i],yVal1=idx1==null?null:mode==1?data[i][idx1]:data[i][1][idx1],idx2=cursor.dataIdx(self,i,idx,valAtPosX),
yVal2=idx2==null?null:mode==1?data[i][idx2]:data[i][1][idx2];if(shouldSetLegend=shouldSetLegend||yVal2!=yVal1||idx2!=idx1,
activeIdxs[i]=idx2,i>0&&s.show){let xPos2=idx2==null?-10:idx2==idx?xPos:valToPosX(mode==1?data[0][idx2]:data[i][0][idx2],
scaleX,xDim,0),yPos=yVal2==null?-10:valToPosY(yVal2,mode==1?scales[s.scale]:scales[s.facets[1].scale],yDim,0);if(cursorFocus&&
yVal2!=null){let mouseYPos=scaleX.ori==1?mouseLeft1:mouseTop1,dist=abs(focus.dist(self,i,idx2,yPos,mouseYPos));if(dist<closestDist){
let bias=focus.bias;if(bias!=0){let mouseYVal=posToVal(mouseYPos,s.scale),seriesYValSign=yVal2>=0?1:-1,mouseYValSign=mouseYVal>=
0?1:-1;mouseYValSign==seriesYValSign&&(mouseYValSign==1?bias==1?yVal2>=mouseYVal:yVal2<=mouseYVal:bias==1?yVal2<=mouseYVal:
yVal2>=mouseYVal)&&(closestDist=dist,closestSeries=i)}else closestDist=dist,closestSeries=i}}if(shouldSetLegend||cursorOnePt){
let hPos,vPos;scaleX.ori==0?(hPos=xPos2,vPos=yPos):(hPos=yPos,vPos=xPos2);let ptWid,ptHgt,ptLft,ptTop,ptStroke,ptFill,centered=!0,
getBBox=points3.bbox;if(getBBox!=null){centered=!1;let bbox=getBBox(self,i);ptLft=bbox.left,ptTop=bbox.top,ptWid=bbox.width,
ptHgt=bbox.height}else ptLft=hPos,ptTop=vPos,ptWid=ptHgt=points3.size(self,i);if(ptFill=points3.fill(self,i),ptStroke=points3.
stroke(self,i),cursorOnePt)i==closestSeries&&closestDist<=focus.prox&&(_ptLft=ptLft,_ptTop=ptTop,_ptWid=ptWid,_ptHgt=ptHgt,
_centered=centered,_ptFill=ptFill,_ptStroke=ptStroke);else{let pt=cursorPts[i];pt!=null&&(cursorPtsLft[i]=ptLft,cursorPtsTop[i]=
ptTop,elSize(pt,ptWid,ptHgt,centered),elColor(pt,ptFill,ptStroke),elTrans(pt,ceil(ptLft),ceil(ptTop),plotWidCss,plotHgtCss))}}}}
if(cursorOnePt){let p=focus.prox,focusChanged=focusedSeries==null?closestDist<=p:closestDist>p||closestSeries!=focusedSeries;
if(shouldSetLegend||focusChanged){let pt=cursorPts[0];pt!=null&&(cursorPtsLft[0]=_ptLft,cursorPtsTop[0]=_ptTop,elSize(pt,
_ptWid,_ptHgt,_centered),elColor(pt,_ptFill,_ptStroke),elTrans(pt,ceil(_ptLft),ceil(_ptTop),plotWidCss,plotHgtCss))}}}if(select2.
show&&dragging)if(src!=null){let[xKey,yKey]=syncOpts.scales,[matchXKeys,matchYKeys]=syncOpts.match,[xKeySrc,yKeySrc]=src.
cursor.sync.scales,sdrag=src.cursor.drag;if(dragX=sdrag._x,dragY=sdrag._y,dragX||dragY){let{left:left2,top,width,height}=src.
select,sori=src.scales[xKeySrc].ori,sPosToVal=src.posToVal,sOff,sDim,sc,a,b,matchingX=xKey!=null&&matchXKeys(xKey,xKeySrc),
matchingY=yKey!=null&&matchYKeys(yKey,yKeySrc);matchingX&&dragX?(sori==0?(sOff=left2,sDim=width):(sOff=top,sDim=height),
sc=scales[xKey],a=valToPosX(sPosToVal(sOff,xKeySrc),sc,xDim,0),b=valToPosX(sPosToVal(sOff+sDim,xKeySrc),sc,xDim,0),setSelX(
min(a,b),abs(b-a))):setSelX(0,xDim),matchingY&&dragY?(sori==1?(sOff=left2,sDim=width):(sOff=top,sDim=height),sc=scales[yKey],
a=valToPosY(sPosToVal(sOff,yKeySrc),sc,yDim,0),b=valToPosY(sPosToVal(sOff+sDim,yKeySrc),sc,yDim,0),setSelY(min(a,b),abs(
b-a))):setSelY(0,yDim)}else hideSelect()}else{let rawDX=abs(rawMouseLeft1-rawMouseLeft0),rawDY=abs(rawMouseTop1-rawMouseTop0);
if(scaleX.ori==1){let _rawDX=rawDX;rawDX=rawDY,rawDY=_rawDX}dragX=drag.x&&rawDX>=drag.dist,dragY=drag.y&&rawDY>=drag.dist;
let uni=drag.uni;uni!=null?dragX&&dragY&&(dragX=rawDX>=uni,dragY=rawDY>=uni,!dragX&&!dragY&&(rawDY>rawDX?dragY=!0:dragX=
!0)):drag.x&&drag.y&&(dragX||dragY)&&(dragX=dragY=!0);let p0,p1;dragX&&(scaleX.ori==0?(p0=mouseLeft0,p1=mouseLeft1):(p0=
mouseTop0,p1=mouseTop1),setSelX(min(p0,p1),abs(p1-p0)),dragY||setSelY(0,yDim)),dragY&&(scaleX.ori==1?(p0=mouseLeft0,p1=mouseLeft1):
(p0=mouseTop0,p1=mouseTop1),setSelY(min(p0,p1),abs(p1-p0)),dragX||setSelX(0,xDim)),!dragX&&!dragY&&(setSelX(0,0),setSelY(
0,0))}if(drag._x=dragX,drag._y=dragY,src==null){if(_pub){if(syncKey!=null){let[xSyncKey,ySyncKey]=syncOpts.scales;syncOpts.
values[0]=xSyncKey!=null?posToVal(scaleX.ori==0?mouseLeft1:mouseTop1,xSyncKey):null,syncOpts.values[1]=ySyncKey!=null?posToVal(
scaleX.ori==1?mouseLeft1:mouseTop1,ySyncKey):null}pubSync(mousemove,self,mouseLeft1,mouseTop1,plotWidCss,plotHgtCss,idx)}
if(cursorFocus){let shouldPub=_pub&&syncOpts.setSeries,p=focus.prox;focusedSeries==null?closestDist<=p&&setSeries(closestSeries,
FOCUS_TRUE,!0,shouldPub):closestDist>p?setSeries(null,FOCUS_TRUE,!0,shouldPub):closestSeries!=focusedSeries&&setSeries(closestSeries,
FOCUS_TRUE,!0,shouldPub)}}shouldSetLegend&&(legend.idx=idx,setLegend()),_fire!==!1&&fire("setCursor")}let rect2=null;Object.
defineProperty(self,"rect",{get(){return rect2==null&&syncRect(!1),rect2}});function syncRect(defer=!1){defer?rect2=null:
(rect2=over.getBoundingClientRect(),fire("syncRect",rect2))}function mouseMove(e,src,_l,_t,_w,_h,_i){cursor._lock||dragging&&
e!=null&&e.movementX==0&&e.movementY==0||(cacheMouse(e,src,_l,_t,_w,_h,_i,!1,e!=null),e!=null?updateCursor(null,!0,!0):updateCursor(
src,!0,!1))}function cacheMouse(e,src,_l,_t,_w,_h,_i,initial,snap){if(rect2==null&&syncRect(!1),setCursorEvent(e),e!=null)
_l=e.clientX-rect2.left,_t=e.clientY-rect2.top;else{if(_l<0||_t<0){mouseLeft1=-10,mouseTop1=-10;return}let[xKey,yKey]=syncOpts.
scales,syncOptsSrc=src.cursor.sync,[xValSrc,yValSrc]=syncOptsSrc.values,[xKeySrc,yKeySrc]=syncOptsSrc.scales,[matchXKeys,
matchYKeys]=syncOpts.match,rotSrc=src.axes[0].side%2==1,xDim=scaleX.ori==0?plotWidCss:plotHgtCss,yDim=scaleX.ori==1?plotWidCss:
plotHgtCss,_xDim=rotSrc?_h:_w,_yDim=rotSrc?_w:_h,_xPos=rotSrc?_t:_l,_yPos=rotSrc?_l:_t;if(xKeySrc!=null?_l=matchXKeys(xKey,
xKeySrc)?getPos(xValSrc,scales[xKey],xDim,0):-10:_l=xDim*(_xPos/_xDim),yKeySrc!=null?_t=matchYKeys(yKey,yKeySrc)?getPos(
yValSrc,scales[yKey],yDim,0):-10:_t=yDim*(_yPos/_yDim),scaleX.ori==1){let __l=_l;_l=_t,_t=__l}}snap&&(src==null||src.cursor.
event.type==mousemove)&&((_l<=1||_l>=plotWidCss-1)&&(_l=incrRound(_l,plotWidCss)),(_t<=1||_t>=plotHgtCss-1)&&(_t=incrRound(
_t,plotHgtCss))),initial?(rawMouseLeft0=_l,rawMouseTop0=_t,[mouseLeft0,mouseTop0]=cursor.move(self,_l,_t)):(mouseLeft1=_l,
mouseTop1=_t)}let _hideProps={width:0,height:0,left:0,top:0};function hideSelect(){setSelect(_hideProps,!1)}let downSelectLeft,
downSelectTop,downSelectWidth,downSelectHeight;function mouseDown(e,src,_l,_t,_w,_h,_i){dragging=!0,dragX=dragY=drag._x=
drag._y=!1,cacheMouse(e,src,_l,_t,_w,_h,_i,!0,!1),e!=null&&(onMouse(mouseup,doc,mouseUp,!1),pubSync(mousedown,self,mouseLeft0,
mouseTop0,plotWidCss,plotHgtCss,null));let{left:left2,top,width,height}=select2;downSelectLeft=left2,downSelectTop=top,downSelectWidth=
width,downSelectHeight=height}function mouseUp(e,src,_l,_t,_w,_h,_i){dragging=drag._x=drag._y=!1,cacheMouse(e,src,_l,_t,
_w,_h,_i,!1,!0);let{left:left2,top,width,height}=select2,hasSelect=width>0||height>0,chgSelect=downSelectLeft!=left2||downSelectTop!=
top||downSelectWidth!=width||downSelectHeight!=height;if(hasSelect&&chgSelect&&setSelect(select2),drag.setScale&&hasSelect&&
chgSelect){let xOff=left2,xDim=width,yOff=top,yDim=height;if(scaleX.ori==1&&(xOff=top,xDim=height,yOff=left2,yDim=width),
dragX&&_setScale(xScaleKey,posToVal(xOff,xScaleKey),posToVal(xOff+xDim,xScaleKey)),dragY)for(let k in scales){let sc=scales[k];
k!=xScaleKey&&sc.from==null&&sc.min!=inf&&_setScale(k,posToVal(yOff+yDim,k),posToVal(yOff,k))}hideSelect()}else cursor.lock&&
(cursor._lock=!cursor._lock,updateCursor(src,!0,e!=null));e!=null&&(offMouse(mouseup,doc),pubSync(mouseup,self,mouseLeft1,
mouseTop1,plotWidCss,plotHgtCss,null))}function mouseLeave(e,src,_l,_t,_w,_h,_i){if(cursor._lock)return;setCursorEvent(e);
let _dragging=dragging;if(dragging){let snapH=!0,snapV=!0,snapProx=10,dragH,dragV;scaleX.ori==0?(dragH=dragX,dragV=dragY):
(dragH=dragY,dragV=dragX),dragH&&dragV&&(snapH=mouseLeft1<=snapProx||mouseLeft1>=plotWidCss-snapProx,snapV=mouseTop1<=snapProx||
mouseTop1>=plotHgtCss-snapProx),dragH&&snapH&&(mouseLeft1=mouseLeft1<mouseLeft0?0:plotWidCss),dragV&&snapV&&(mouseTop1=mouseTop1<
mouseTop0?0:plotHgtCss),updateCursor(null,!0,!0),dragging=!1}mouseLeft1=-10,mouseTop1=-10,activeIdxs.fill(null),updateCursor(
null,!0,!0),_dragging&&(dragging=_dragging)}function dblClick(e,src,_l,_t,_w,_h,_i){cursor._lock||(setCursorEvent(e),autoScaleX(),
hideSelect(),e!=null&&pubSync(dblclick,self,mouseLeft1,mouseTop1,plotWidCss,plotHgtCss,null))}function syncPxRatio(){axes.
forEach(syncFontSize),_setSize(self.width,self.height,!0)}on(dppxchange,win,syncPxRatio);let events2={};events2.mousedown=
mouseDown,events2.mousemove=mouseMove,events2.mouseup=mouseUp,events2.dblclick=dblClick,events2.setSeries=(e,src,idx,opts2)=>{
let seriesIdxMatcher2=syncOpts.match[2];idx=seriesIdxMatcher2(self,src,idx),idx!=-1&&setSeries(idx,opts2,!0,!1)},showCursor&&
(onMouse(mousedown,over,mouseDown),onMouse(mousemove,over,mouseMove),onMouse(mouseenter,over,e=>{setCursorEvent(e),syncRect(
!1)}),onMouse(mouseleave,over,mouseLeave),onMouse(dblclick,over,dblClick),cursorPlots.add(self),self.syncRect=syncRect);
let hooks=self.hooks=opts.hooks||{};function fire(evName,a1,a2){deferHooks?hooksQueue.push([evName,a1,a2]):evName in hooks&&
hooks[evName].forEach(fn=>{fn.call(null,self,a1,a2)})}(opts.plugins||[]).forEach(p=>{for(let evName in p.hooks)hooks[evName]=
(hooks[evName]||[]).concat(p.hooks[evName])});let seriesIdxMatcher=(self2,src,srcSeriesIdx)=>srcSeriesIdx,syncOpts=assign(
{key:null,setSeries:!1,filters:{pub:retTrue,sub:retTrue},scales:[xScaleKey,series[1]?series[1].scale:null],match:[retEq,
retEq,seriesIdxMatcher],values:[null,null]},cursor.sync);syncOpts.match.length==2&&syncOpts.match.push(seriesIdxMatcher),
cursor.sync=syncOpts;let syncKey=syncOpts.key,sync=_sync(syncKey);function pubSync(type,src,x,y,w,h2,i){syncOpts.filters.
pub(type,src,x,y,w,h2,i)&&sync.pub(type,src,x,y,w,h2,i)}sync.sub(self);function pub(type,src,x,y,w,h2,i){syncOpts.filters.
sub(type,src,x,y,w,h2,i)&&events2[type](null,src,x,y,w,h2,i)}self.pub=pub;function destroy(){sync.unsub(self),cursorPlots.
delete(self),mouseListeners.clear(),off(dppxchange,win,syncPxRatio),root2.remove(),legendTable?.remove(),fire("destroy")}
self.destroy=destroy;function _init(){fire("init",opts,data),setData(data||opts.data,!1),pendScales[xScaleKey]?setScale(
xScaleKey,pendScales[xScaleKey]):autoScaleX(),shouldSetSelect=select2.show&&(select2.width>0||select2.height>0),shouldSetCursor=
shouldSetLegend=!0,_setSize(opts.width,opts.height)}return series.forEach(initSeries),axes.forEach(initAxis),then?then instanceof
HTMLElement?(then.appendChild(root2),_init()):then(self,_init):_init(),self}uPlot.assign=assign;uPlot.fmtNum=fmtNum;uPlot.
rangeNum=rangeNum;uPlot.rangeLog=rangeLog;uPlot.rangeAsinh=rangeAsinh;uPlot.orient=orient;uPlot.pxRatio=pxRatio;uPlot.join=
join;uPlot.fmtDate=fmtDate,uPlot.tzDate=tzDate;uPlot.sync=_sync;{uPlot.addGap=addGap,uPlot.clipGaps=clipGaps;let paths2=uPlot.
paths={points};paths2.linear=linear,paths2.stepped=stepped,paths2.bars=bars,paths2.spline=monotoneCubic}var HEIGHT2=190,MIN_SPAN=60,dark=matchMedia("(prefers-color-scheme: dark)"),color=name=>getComputedStyle(document.documentElement).
getPropertyValue(name).trim(),round2=n=>n==null?"–":number(Math.round(n*10)/10);function plot({name,series,counts,stacked,
dots,stepped:stepped2}){let canvas=h("div",{class:"canvas",role:"img","aria-label":t(`plot.${name}`)}),values=series.map(
()=>h("b",{})),element=h("figure",{class:"plot","data-plot":name},h("figcaption",{},h("h3",{},t(`plot.${name}`)),h("ul",
{class:"legend"},series.map((s,i)=>h("li",{},h("span",{class:`swatch s${i+1}`,"aria-hidden":"true"}),` ${t(`series.${s.name}`)}\
 `,values[i])))),canvas),chart=null,seconds=[],frame=0;function legend(){let at=seconds[chart?.cursor.idx??seconds.length-
1];series.forEach((s,i)=>text(values[i],at?round2(s.value(at)):"–"))}function describe(){let each=series.map(s=>[s,counts?
seconds.reduce((sum,second2)=>sum+s.value(second2),0):s.value(seconds.at(-1))]);stacked&&each.forEach(([,n],i)=>show(values[i].
parentElement,n>0));let figures2=each.filter(([,n])=>!counts||n>0).map(([s,n])=>`${t(`series.${s.name}`)} ${round2(n)}`).
join(", ");attr(canvas,"aria-label",t(counts?"plot.sums":"plot.last",{title:t(`plot.${name}`),figures:figures2||"0"}))}function data(){
let columns3=series.map(s=>seconds.map(s.value));if(stacked){for(let i=1;i<columns3.length;i++)columns3[i]=columns3[i].map(
(n,at)=>n===null?null:n+columns3[i-1][at]);columns3.reverse()}return[seconds.map(s=>Date.parse(s.at)/1e3),...columns3]}function options(){
let axis={stroke:color("--soft"),grid:{stroke:color("--line"),width:1},ticks:{show:!1},font:"11px system-ui, sans-serif"},
lines=series.map((_2,i)=>{let stroke=color(`--s${i+1}`);if(stacked)return{stroke,fill:stroke,width:1,points:{show:!1}};let first=i===
0;return{stroke,width:2,paths:stepped2&&uPlot.paths.stepped({align:1}),spanGaps:dots==="sparse",fill:first&&series.length>
1?`${stroke}2b`:void 0,dash:first?void 0:[6,4],points:{...dots!=="sparse"&&{show:dots},size:4}}});return{width:Math.max(
200,canvas.clientWidth),height:HEIGHT2,legend:{show:!1},series:[{},...stacked?lines.reverse():lines],scales:{x:{range:(_2,min2,max2)=>[
Math.min(min2,max2-MIN_SPAN),max2]},y:{range:(_2,min2,max2)=>[0,Math.max(1,max2??0)*1.08]}},axes:[{...axis,space:80,values:(_2,splits)=>splits.
map(at=>clockTime(at*1e3))},{...axis,size:56,values:(_2,splits)=>splits.map(n=>Number.isInteger(n)?number(n):"")}],cursor:{
y:!1,drag:{x:!1,y:!1},sync:{key:"sale"},points:{show:!stacked}},hooks:{setCursor:[legend]}}}function draw(){frame=0,!(seconds.
length===0||canvas.clientWidth===0)&&(chart?chart.setData(data()):chart=new uPlot(options(),data(),canvas),legend(),describe())}
let schedule=()=>{frame||(frame=requestAnimationFrame(draw))},redraw=()=>{chart?.destroy(),chart=null,schedule()},size=new ResizeObserver(
()=>{chart&&canvas.clientWidth>0?chart.setSize({width:canvas.clientWidth,height:HEIGHT2}):schedule()});return size.observe(
canvas),dark.addEventListener("change",redraw),{element,show(all2){seconds=all2,schedule()},end(){cancelAnimationFrame(frame),
size.disconnect(),dark.removeEventListener("change",redraw),chart?.destroy()}}}var tabs=["running","upcoming","drafts","ended","all"];function stateOf(v){return v.status!=="on"?[t(`voucher.${v.status}`),
"ended"]:v.type==="seckill"?[t(`state.${v.state}`),v.state]:[t("voucher.plain"),"ended"]}function units(v){let all2=v.initial_stock+
(v.added_stock??0);return{sold:all2-v.stock,all:all2}}function soldBar(v){if(v.stock===void 0)return null;let{sold,all:all2}=units(
v);if(all2===0)return null;let words2=t("sales.soldOf",{n:number(sold),all:number(all2)});return h("span",{class:"sold"},
h("progress",{value:sold,max:Math.max(all2,1),"aria-label":words2}),h("span",{},words2))}var thumbnail=v=>v.image_url?h(
"img",{src:v.image_url,alt:"",class:"thumb",loading:"lazy"}):h("span",{class:"thumb blank","aria-hidden":"true"},[...v.title][0]);
function list2(root2){let query2=new URLSearchParams(location.search),search=query2.get("search")??"",chosen=tabs.includes(
query2.get("tab"))?query2.get("tab"):"",path=tab2=>`/console/sales?${new URLSearchParams({tab:tab2,...search&&{search}})}`,
counts=new Map(tabs.map(tab2=>[tab2,h("span",{class:"count"})])),links2=new Map(tabs.map(tab2=>[tab2,h("a",{href:path(tab2),
"data-tab":tab2},t(`tab.${tab2}`)," ",counts.get(tab2))])),bar=h("nav",{class:"tabs","aria-label":t("sales.tabs")},[...links2.
values()]),id2=newID("search"),input=h("input",{id:id2,type:"search",name:"search",value:search,autocomplete:"off",maxlength:255}),
find2=h("form",{role:"search","data-form":"sales",onsubmit:event=>{event.preventDefault();let words2=input.value.trim();
go(`/console/sales?${new URLSearchParams({tab:words2?"all":chosen||"all",...words2&&{search:words2}})}`)}},h("label",{for:id2,
class:"sr"},t("sales.search")),input,h("button",{type:"submit",class:"quiet"},t("sales.find")));attr(input,"placeholder",
t("sales.search"));let all2=listing({caption:t("sales.title"),empty:t("sales.none"),columns:[{label:t("voucher.title"),cell:v=>h(
"span",{class:"titled"},thumbnail(v),named(h("a",{href:`/console/sales/${v.id}`},v.title),v.id))},{label:t("voucher.stat\
e"),cell:v=>h("span",{},chip(...stateOf(v)),violated(v.id)?[" ",chip(t("alerts.badge"),"bad")]:null)},{label:t("sales.so\
ld"),cell:v=>soldBar(v)??"–"},{label:t("voucher.pay_value"),number:!0,cell:v=>v.status==="draft"&&v.pay_value===0?"–":
money(v.pay_value,v.currency)},...["begin_at","end_at"].map(at=>({label:t(`voucher.${at}`),cell:v=>v.begin_at<v.end_at?stamp(
v[at]):"–"}))],read});async function read(cursor){let page2=tab2=>pages2("/admin/vouchers",{limit:30,tab:tab2,...search&&
{search}})(cursor),answer=await page2(chosen||tabs[0]);chosen||(chosen=tabs.find(tab2=>answer.counts[tab2]>0)??tabs[0],chosen!==
tabs[0]&&(answer=await page2(chosen)));for(let[tab2,link4]of links2)text(counts.get(tab2),number(answer.counts[tab2])+(answer.
complete?"":"+")+(tab2==="all"?plain2(answer.counts):"")),attr(link4,"aria-current",tab2===chosen?"page":null);return answer}
function plain2({all:all3,...others}){let n=all3-Object.values(others).reduce((sum,count)=>sum+count,0);return n>0?` ${t(
"tab.plain",{n:number(n)})}`:""}root2.replaceChildren(head(t("sales.title"),session.may("operate")?h("a",{href:"/console\
/new",class:"button primary"},t("sales.new")):null),h("div",{class:"bar"},bar,find2),all2.element),all2.load();let onVisible=()=>document.
hidden||all2.load();document.addEventListener("visibilitychange",onVisible);let unsubscribe=onChange(all2.refresh);return()=>{
unsubscribe(),document.removeEventListener("visibilitychange",onVisible)}}function make2(root2){let post=intents({lasting:!0}),
from=new URLSearchParams(location.search).get("from"),out=errorBox(),place=h("div",{},h("p",{class:"empty"},t("loading")));
root2.replaceChildren(head(t("sales.new"),h("p",{},t("sales.newLead")),h("a",{href:"/console/sales",class:"link"},t("sal\
es.back"))),out.element,place),reading(out,()=>Promise.all([all(),from&&getMine(`/vouchers/${from}`)])).then(found=>{if(!found)
return place.replaceChildren();let[shops,copied]=found,values=copied?copyOf(copied):{},f=form({name:"make",label:t("sale\
s.save"),check:validate(null),groups:groups(),asks:!0,fields:fields2(null,shops,()=>f.parsed("currency")).map(field2=>({
...field2,value:values[field2.name]??field2.value})),work:async values2=>{let voucher={...body(values2,f),status:"draft"};
if(!await confirmAnother(post,"/admin/vouchers",voucher,open3=>open3.title))return;let created=await post("/admin/vouche\
rs",voucher);f.clear(),goFrom("/console/new",`/console/sales/${created.id}`)}}),card=preview(f,shops,{currency:()=>f.parsed(
"currency"),stock:()=>f.parsed("stock")??0});place.replaceChildren(beside(section(t("sales.details"),f.element),card.element))})}var signs={holds:"✓",broken:"✕",unknown:"?"},empty=()=>h("li",{},h("span",{class:"sign","aria-hidden":"true"}),h("di\
v",{},h("strong",{})," ",h("span",{class:"word"}),h("p",{class:"note"}),h("p",{class:"detail"})));function verdicts(){let element=h(
"ul",{class:"invariants"}),announced=new Map;return{element,set(all2){element.children.length!==all2.length&&element.replaceChildren(
...all2.map(empty)),all2.forEach((v,i)=>{let li=element.children[i],word=v.ok===null?"unknown":v.ok?"holds":"broken",name=has(
`invariant.${v.id}`)?t(`invariant.${v.id}`):v.title;attr(li,"data-invariant",v.id),attr(li,"data-ok",word),text(li.querySelector(
".sign"),signs[word]),text(li.querySelector("strong"),`${v.id} ${name}`),text(li.querySelector(".word"),t(`invariant.${word}`)),
text(li.querySelector(".note"),has(`invariant.${v.id}.means`)?t(`invariant.${v.id}.means`):"");let[detail2,lang]=detailOf(
v.detail??"");text(li.querySelector(".detail"),detail2),attr(li.querySelector(".detail"),"lang",lang),announced.has(v.id)&&
announced.get(v.id)!==word&&announce(`${name}: ${t(`invariant.${word}`)}`),announced.set(v.id,word)})}}}var statuses=["pending_payment","paid","redeemed","refunding","refunded","cancelled"],ROWS=10,CURVE=1e4,round3=n=>n==null?
"–":number(Math.round(n*10)/10),outdated=v=>v.ok?{...v,ok:null,detail:""}:v;function takings(){let revenue=h("strong",
{"data-fact":"revenue"}),bar=h("dd",{}),list4=factList(),element=h("div",{class:"takings"},h("dl",{},h("div",{class:"rev\
enue"},h("dt",{},t("money.revenue")),h("dd",{},revenue)),h("div",{},h("dt",{},t("sales.sold")),bar)),list4.element),shown3="";
return{element,show(v,figures2){text(revenue,figures2?money(figures2.revenue,v.currency):"–");let key=[v.initial_stock,
v.added_stock,v.stock].join();key!==shown3&&bar.replaceChildren(soldBar(v)??""),shown3=key;let refunded=figures2?.refunded>
0?`${number(figures2.refunded)} (${money(figures2.refunded_amount,v.currency)})`:"";list4.set([["paid",figures2&&number(
figures2.paid),refunded&&"paidAndRefunded"],["conversion",figures2?.orders>0?`${round3(figures2.conversion*100)}%`:figures2&&
"–"],["unpaid",figures2&&number(figures2.unpaid)],["refunded",refunded]].map(([id2,value,name])=>({id:`money.${id2}`,name:t(
`money.${name||id2}`),value})))}}}function panel(id2,onStats){let stale=h("p",{class:"banner","data-stale":!0}),staleStatus=h(
"p",{class:"sr",role:"status"}),repair=h("p",{class:"banner","data-repair":!0}),out=errorBox(),takes=takings(),sold=plot(
soldPlot),hourly=hourPlots.map(plot),figures2=factList(),invariants=verdicts(),checked=h("p",{class:"note"}),grid2=h("di\
v",{class:"plots"}),lastPlace=h("div",{}),pictures=[],last=null,technical=h("details",{class:"panel fold","data-technica\
l":!0},h("summary",{},h("h2",{},t("live.technical"))),h("div",{class:"reports"},figures2.element,grid2,h("h3",{},t("live\
.table")),lastPlace)),element=h("div",{class:"live","data-live":id2},stale,staleStatus,repair,out.element,section(t("mon\
ey.title"),takes.element),section(t("live.course"),sold.element,h("div",{class:"plots"},hourly.map(p=>p.element))),section(
t("live.invariants"),invariants.element,checked),technical),shown3=null,counted=-1,curveAt=-CURVE;show(stale,!1),show(repair,
!1);function render3({stats,seconds,hour:hour2,stale:old,receivedAt,problem}){let sentence=old?stats?t("live.stale",{at:clockTime(
receivedAt)}):t("live.waiting"):"";if(text(stale,sentence),text(staleStatus,sentence),show(stale,old&&!problem),problem?
out.show(problem):out.clear(),attr(element,"data-state",stats?old?"stale":"live":"waiting"),stats&&invariants.set(old?stats.
invariants.map(outdated):stats.invariants),!(!stats||stats===shown3)){if(shown3=stats,last||draw(stats.lane),attr(element,
"data-seconds",seconds.length),attr(element,"data-holes",seconds.filter(s=>!s.outcomes).length),takes.show(stats.voucher,
stats.figures),showRepair(stats.invariants.some(v=>v.ok===!1)),showFigures(stats),text(checked,stats.checked_at?t("live.\
checked",{at:stamp(stats.checked_at)}):""),!document.hidden){for(let p of pictures)p.show(seconds);for(let p of hourly)p.
show(hour2);readCurve(stats)}last.set(seconds.slice(-ROWS).reverse()),onStats?.(stats)}}function showRepair(broken){broken&&
repair.hidden&&repair.replaceChildren(t("live.repair")," ",h("a",{href:"/console/reconcile"},t("reconcile.title"))),show(
repair,broken)}async function readCurve({figures:figures3,voucher,at}){if(!figures3||figures3.orders===counted||performance.
now()-curveAt<CURVE)return;curveAt=performance.now(),counted=figures3.orders;let stats=await orNull(getMine(`/admin/vouc\
hers/${id2}/stats?hour=false`));if(!stats){counted=-1;return}let points3=course(stats.figures?.curve??[],voucher,at);show(
sold.element,points3.length>1),sold.show(points3)}function draw(lane){pictures=inLane(lane,plots).map(p=>plot({...p,series:inLane(
lane,p.series)})),grid2.replaceChildren(...pictures.map(p=>p.element)),last=table(t("live.table"),[{label:t("audit.at"),
cell:s=>clockTime(Date.parse(s.at))},...inLane(lane,columns2).map(({name,value})=>({label:t(`series.${name}`),number:!0,
cell:s=>round3(value(s))}))]),lastPlace.replaceChildren(last.element)}function showFigures({stock:stock2,orders,queue,totals,
lane,instances}){let entries2=[["database",stock2.database],["gate",stock2.gate],["initial",stock2.initial],["added",stock2.
added],...queue?[["lag",queue.lag],["oldest",queue.oldest_seconds],["deadLetters",queue.dead_letters]]:[],["p50",totals.
p50_ms],["p99",totals.p99_ms],["instances",instances]].map(([id3,n])=>({id:id3,name:t(`live.${id3}`),value:n==null?"":round3(
n)})),byStatus=statuses.filter(s=>s in orders).map(s=>({id:s,name:t(`status.${s}`),value:number(orders[s])}));figures2.set(
[...byStatus,...entries2,{id:"lane",name:t("live.lane"),value:lane}])}let stop=watch(id2,render3);return{element,end(){stop();
for(let p of[sold,...hourly,...pictures])p.end()}}}var EVERY=1e4,LISTED=5,tab=name=>getMine(`/admin/vouchers?${new URLSearchParams({tab:name,limit:LISTED})}`),link3=v=>h("\
a",{href:`/console/sales/${v.id}`},v.title);function mount5(root2){let out=errorBox(),waiting=h("p",{class:"empty"},t("l\
oading")),running=h("div",{class:"running"}),todo=h("ul",{class:"todo"}),next=h("ul",{class:"briefly"}),past=h("ul",{class:"\
briefly"}),upcoming=section(t("home.upcoming"),next),ended=section(t("home.ended"),past),page2=h("div",{"data-home":!0},
section(t("home.todo"),todo),running,h("div",{class:"forms"},upcoming,ended)),drafts=[];show(page2,!1);async function sale(v){
let takes=takings(),stats=await orNull(getMine(`/admin/vouchers/${v.id}/stats?hour=false`));takes.show(v,stats?.figures??
null);let panel2=section(v.title,takes.element);return panel2.dataset.voucher=v.id,panel2.querySelector("h2").replaceChildren(
link3(v)," ",chip(...stateOf(v))),panel2.querySelector("h2").after(h("p",{class:"sub"},t("home.until",{at:stamp(v.end_at)}))),
h("div",{class:"pictured"},thumbnail(v),panel2)}let brief=(v,words2)=>h("li",{},thumbnail(v),h("div",{},link3(v),h("p",{
class:"sub"},words2)),soldBar(v));async function draft(v){let list4=await orNull(getMine(`/admin/vouchers/${v.id}/checkl\
ist`));if(!list4)return null;let lacks=[...new Set(list4.problems.map(p=>t(`home.lacks.${p.field}`)))].join(t("home.and"));
return h("span",{},link3(v)," – ",lacks?t("home.lacks",{lacks}):t("home.ready"))}function showTodo(){let all2=[...sentences2(),
...drafts];keepFocus(todo,()=>todo.replaceChildren(...(all2.length>0?all2:[t("home.nothing")]).map(line=>h("li",{},line))))}
async function load(){let[now2,soon2,saved,over]=await Promise.all(["running","upcoming","drafts","ended"].map(tab)),panels=await Promise.
all(now2.items.map(sale)),unfinished=await Promise.all(saved.items.map(draft));now2.next_cursor&&panels.push(h("a",{href:"\
/console/sales"},t("home.allRunning")));let none=h("div",{class:"panel empty"},t("home.none")," ",session.may("operate")?
h("a",{href:"/console/new"},t("sales.new")):null);keepFocus(running,()=>running.replaceChildren(...panels.length>0?panels:
[none])),keepFocus(next,()=>next.replaceChildren(...soon2.items.map(v=>brief(v,t("home.starts",{at:stamp(v.begin_at)}))))),
show(upcoming,soon2.items.length>0),keepFocus(past,()=>past.replaceChildren(...over.items.filter(v=>v.type==="seckill").
map(v=>brief(v,stateOf(v)[0])))),show(ended,past.children.length>0),drafts=unfinished.filter(Boolean),showTodo(),show(waiting,
!1),show(page2,!0)}return root2.replaceChildren(head(t("home.title"),session.may("operate")?h("a",{href:"/console/new",class:"\
button primary"},t("sales.new")):null),out.element,waiting,page2),poll(page2,out,EVERY,load),onChange(showTodo)}var menu=links2=>links2.length>0?h("details",{class:"menu","data-menu":!0},h("summary",{},t("system.nav")),h("div",{},links2)):
"";function close(event){let open3=document.querySelector("[data-menu][open]"),inside=open3?.contains(event.target);(event.
type==="keydown"?event.key!=="Escape":inside&&!event.target.closest("a"))||(open3?.removeAttribute("open"),event.key==="\
Escape"&&inside&&open3.querySelector("summary").focus())}document.addEventListener("click",close);document.addEventListener(
"keydown",close);var mount6=root2=>worklist(root2,{name:"notices",path:"/admin/payment-notices",params:{state:"open"},actions:closing,columns:[
{label:t("notices.received_at"),cell:n=>stamp(n.received_at)},{label:t("notices.reason"),cell:n=>h("span",{lang:detailOf(
n.reason)[1]},detailOf(n.reason)[0])},{label:t("notices.source"),cell:n=>`${n.provider}, ${t(`notices.source.${n.source}`)}`},
{label:t("payments.ref"),cell:n=>n.provider_ref??"–"},{label:t("orders.one"),cell:n=>n.order_id?h("a",{href:`/console/\
orders/${n.order_id}`},n.order_id):"–"},{label:t("notices.times"),number:!0,cell:n=>n.times},{label:t("notices.body"),
cell:n=>h("details",{},h("summary",{},t("notices.body")),h("pre",{},n.body))}]});function closing(notice,{post,change:change3}){
let f=form({name:`close-${notice.id}`,kind:"quiet",label:t("notices.close"),fields:[{name:"reason",kind:"text",label:t("\
notices.why"),required:!0,max:255}],work:values=>change3(post(`/admin/payment-notices/${notice.id}/close`,values),t("not\
ices.closed"))});return h("details",{"data-notice":notice.id},h("summary",{},t("notices.close")),f.element)}var statuses2=["pending_payment","paid","redeemed","refunding","refunded","cancelled","queued","failed"],kindOf=status=>({
paid:"good",redeemed:"good",pending_payment:"on_sale",queued:"on_sale",failed:"bad"})[status],statusChip=o=>h("span",{},
chip(t(`status.${o.status}`),kindOf(o.status)),o.disputed?[" ",chip(t("payment.disputed"),"bad")]:null),pathOf=o=>`/cons\
ole/orders/${o.id}${["queued","failed"].includes(o.status)?`?user_id=${o.user_id}`:""}`,names=["phone_end","id","title",
"from","to","payment_ref","status","voucher_id","user_id"];function dayStart(day3,plus=0){let[year2,month2,date]=day3.split(
"-").map(Number);return new Date(year2,month2-1,date+plus).toISOString()}function queryOf({from,to,...filter}){return{...filter,
...from&&{created_from:dayStart(from)},...to&&{created_to:dayStart(to,1)}}}function list3(root2){let query2=new URLSearchParams(
location.search),phone=session.may("phones")&&history.state?.phone||"",filter=Object.fromEntries(names.filter(name=>query2.
get(name)).map(name=>[name,query2.get(name)])),search=form({name:"search",label:t("orders.search"),fields:[{name:"phone",
kind:"pasted",max:128,value:phone||query2.get("phone_end")},{name:"id",kind:"id"},{name:"title",kind:"text",max:255},{name:"\
from",kind:"day"},{name:"to",kind:"day"},{name:"payment_ref",kind:"pasted",max:255},{name:"status",kind:"choice",options:[
["",t("orders.any")],...statuses2.map(s=>[s,t(`status.${s}`)])]},{name:"voucher_id",kind:"id"},{name:"user_id",kind:"id"}].
map(f=>({label:t(`orders.find.${f.name}`),value:query2.get(f.name)??"",...f})),check:({phone:phone2,from,to})=>({...phone2&&
!/^\d{4}$/.test(phone2)&&!session.may("phones")&&{phone:t("orders.fourDigits")},...from&&to&&to<from&&{to:t("orders.days")}}),
work:({phone:phone2="",...values})=>{let end=/^\d{4}$/.test(phone2)?{phone_end:phone2}:{};go(`/console/orders?${new URLSearchParams(
{...end,...values})}`,phone2&&!end.phone_end?{phone:phone2}:null)}}),fields3={phone_end:"phone",created_from:"from",created_to:"\
to"},found=listing({caption:t("orders.title"),empty:t("orders.none"),columns:[{label:t("orders.id"),cell:o=>h("a",{href:pathOf(
o),"data-order":o.id},o.id)},{label:t("orders.status"),cell:statusChip},{label:t("orders.created_at"),cell:o=>stamp(o.created_at)},
{label:t("sale.title"),cell:o=>saleLink(o.voucher_id,o.title)},{label:t("voucher.shop_id"),cell:o=>o.shop_name||"–"},{
label:t("orders.user_id"),cell:o=>named(o.phone||"–",o.user_id)},{label:t("orders.amount"),number:!0,cell:amount2}],read:cursor=>{
let query3=new URLSearchParams({limit:50,...queryOf(filter),...cursor&&{cursor}});return phone?postMine(`/admin/orders/s\
earch?${query3}`,{body:{phone}}):getMine(`/admin/orders?${query3}`)},refused:problem=>{problem.errors.length>0&&(find2.open=
!0);let wrong=field2=>has(`orders.wrong.${field2}`)?t(`orders.wrong.${field2}`):t("form.refused");return search.showErrors(
Object.fromEntries(problem.errors.map(e=>[fields3[e.field]??e.field,wrong(e.field)])))}}),find2=finder(t("orders.find"),
search.element),out=errorBox(),file=name=>download({path:`/admin/${name}.csv`,query:filter.voucher_id?{voucher_id:filter.
voucher_id}:{},file:name,out});root2.replaceChildren(head(t("orders.title")),find2,found.element,h("div",{class:"bar"},h(
"div",{class:"actions"},file("orders"),file("payments"))),out.element),found.load()}var amount2=o=>o.currency?money(o.amount,
o.currency):"–",UNDO_TIME=36e5,canUndo=o=>o.status==="redeemed"&&now()-Date.parse(o.redeemed_at)<UNDO_TIME;function undo(send2){
let f=form({name:"undo-redeem",kind:"quiet",label:t("redeem.undo"),fields:[{name:"reason",kind:"text",label:t("redeem.un\
doReason"),required:!0,max:255}],work:({reason})=>send2(reason)});return h("details",{"data-undo":!0},h("summary",{},t("\
redeem.undo")),f.element)}function one2(root2,id2){let post=intents(),out=errorBox(),status=statusLine(),about=h("div",{},
h("p",{class:"empty"},t("loading"))),user2=new URLSearchParams(location.search).get("user_id"),log=entries({order_id:id2}),
refresh=button({name:"refresh",out},load);async function load(){let[o]=await Promise.all([getMine(`/admin/orders/${id2}${user2?
`?user_id=${user2}`:""}`),log.load()]);about.isConnected&&render3(o)}let change3=changing(status,load),undoHere=reason=>change3(
post(`/admin/orders/${id2}/undo-redeem`,{reason}),t("redeem.undone",{id:id2})),redeemNote=h("p",{class:"note"},t("redeem\
.note")),move=o=>name=>button({name,out,kind:name==="redeem"?"primary":"quiet",label:t(`move.${name}`)},async()=>{await confirm(
t(`move.sure.${name}`,{id:id2,phone:o.phone||o.user_id}),t(`move.yes.${name}`))&&await change3(post(`/admin/orders/${id2}\
/${name}`),t(`move.done.${name}`))});function choices(o){return o.moves.length>0?h("div",{class:"actions"},o.moves.map(move(
o))):canUndo(o)&&session.may("operate")?undo(undoHere):h("p",{class:"note"},t(o.status==="redeemed"?"move.noneRedeemed":
"move.none"))}function phoneOf(o){let shown3=h("span",{"data-phone":!0},o.phone);if(!o.phone||!session.may("phones"))return shown3;
let reveal=button({name:"reveal",kind:"link",label:t("orders.reveal"),out},async()=>{let{phone}=await getMine(`/admin/or\
ders/${id2}/phone${user2?`?user_id=${user2}`:""}`);text(shown3,phone),reveal.remove(),status.show(t("orders.revealed"))});
return h("span",{},shown3," ",reveal)}function outside(o){let open3=o.payments.filter(p=>p.status==="refunding");if(open3.
length===0||!session.may("operate"))return null;let f=form({name:"return-outside",kind:"quiet",label:t("payments.outside\
.do"),fields:[{name:"provider_ref",kind:"choice",label:t("payments.outside.ref"),options:open3.map(p=>[p.provider_ref,`${p.
provider_ref} · ${amount2(p)}`]),value:open3[0].provider_ref},{name:"reason",kind:"text",label:t("payments.outside.reas\
on"),required:!0,max:255}],work:async values=>{let paid=open3.find(p=>p.provider_ref===values.provider_ref);await confirm(
t("payments.outside.sure",{amount:amount2(paid)}),t("payments.outside.do"))&&await change3(post(`/admin/orders/${id2}/re\
turn-outside`,values),t("payments.outside.done"))}});return section(t("payments.outside"),h("p",{class:"note"},t("paymen\
ts.outside.lead")),f.element)}function render3(o){let payments=table(t("payments.title"),[{label:t("payments.ref"),cell:p=>`${p.
provider} ${p.provider_ref}`},{label:t("orders.status"),cell:p=>h("span",{},chip(has(`payment.${p.status}`)?t(`payment.${p.
status}`):p.status,["failed","disputed"].includes(p.status)?"bad":void 0),p.refund_error&&p.status==="refunding"?` ${t("\
payments.tries",{n:number(p.refund_tries),error:p.refund_error})}`:null)},{label:t("orders.amount"),number:!0,cell:amount2},
{label:t("payments.created_at"),cell:p=>stamp(p.created_at)},{label:t("payments.updated_at"),cell:p=>stamp(p.updated_at)}],
{cards:!0});payments.set(o.payments),about.replaceChildren(h("div",{class:"panel","data-order":o.id,"data-status":o.status},
h("div",{class:"head"},h("strong",{},saleLink(o.voucher_id,o.title)),statusChip(o)),facts([[t("orders.amount"),amount2(o)],
[t("orders.user_id"),h("span",{},phoneOf(o)," ",h("small",{},h("a",{href:`/console/orders?user_id=${o.user_id}`},o.user_id)))],
[t("voucher.sub_title"),o.sub_title],[t("voucher.shop_id"),o.shop_name],[t("voucher.rules"),o.rules],...["created_at","e\
xpires_at","paid_at","redeemed_at","cancelled_at","refunded_at"].map(at=>[t(`orders.${at}`),o[at]&&stamp(o[at])]),[t("or\
ders.ahead"),o.ahead==null?"":number(o.ahead)],[t("orders.reason"),o.reason&&explain({code:o.reason,status:500})]]),choices(
o),o.moves.includes("redeem")?redeemNote:null),section(t("payments.title"),o.payments.length>0?payments.element:h("p",{class:"\
note"},t("payments.none"))),outside(o)??"")}root2.replaceChildren(head(t("orders.number",{id:id2}),h("a",{href:"/console\
/orders",class:"link"},t("orders.back"))),h("div",{class:"bar"},refresh),status.element,out.element,about,section(t("aud\
it.title"),log.element)),reading(out,async()=>(await load(),!0)).then(read=>read||about.replaceChildren())}var LISTED2=5;function mount7(root2){let post=intents(),out=errorBox(),summary=h("p",{class:"summary",role:"status"},t("\
loading")),reports=h("div",{class:"reports"}),refresh=button({name:"refresh",label:t("reconcile.refresh"),out},async()=>{
let answer=await reading(out,()=>getMine("/admin/reconcile"));answer?render3(answer,!1):text(summary,"")}),repair=button(
{name:"apply",kind:"primary",label:t("reconcile.apply"),out},async()=>{await confirm(t("reconcile.sure"),t("reconcile.ap\
ply"))&&render3(await post("/admin/reconcile",{}),!0)});function render3(answer,applied){let found=answer.reports.flatMap(
r=>r.findings),repaired=found.filter(f=>f.repaired).length,left2=found.length-repaired;text(summary,[applied?t("reconcil\
e.repaired",{n:number(repaired)}):"",left2===0?t("reconcile.clean",{n:number(answer.reports.length)}):t("reconcile.found",
{n:number(left2)}),answer.left_out>0?t("reconcile.leftOut",{n:number(answer.left_out)}):""].filter(Boolean).join(" ")),show(
repair,session.may("administer")&&found.some(f=>f.repairable&&!f.repaired)),reports.replaceChildren(...answer.reports.filter(
r=>r.findings.length>0).map(report))}function report(r){let rows=table(t("reconcile.findings",{id:r.voucher_id}),[{label:t(
"reconcile.kind"),cell:f=>h("code",{},f.kind)},{label:t("reconcile.what"),cell:f=>{let[detail2,lang]=findingOf(f);return h(
"span",{lang},detail2)}},{label:t("reconcile.count"),number:!0,cell:f=>number(f.count)},{label:t("orders.title"),cell:f=>orders(
f)},{label:t("orders.status"),cell:f=>state(f)}]);rows.set(r.findings);let sale=section("",h("p",{class:"note"},t("recon\
cile.at",{at:stamp(r.checked_at)}),r.busy?` ${t("reconcile.busy")}`:""),rows.element);return sale.querySelector("h2").replaceChildren(
saleLink(r.voucher_id)),sale}let orders=f=>f.orders.slice(0,LISTED2).flatMap(o=>[h("a",{href:`/console/orders/${o.order_id}`},
o.order_id)," "]).concat(f.orders.length>LISTED2?t("reconcile.more",{n:number(f.orders.length-LISTED2)}):[]);function state(f){
let word=f.repaired?"done":f.repairable?"repairable":"manual";return chip(t(`reconcile.is.${word}`),f.repaired?"good":"b\
ad")}show(repair,!1),root2.replaceChildren(head(t("reconcile.title"),h("p",{},t("reconcile.lead"))),h("div",{class:"bar"},
refresh,repair),out.element,summary,reports,h("p",{class:"note"},t("reconcile.meaning"))),refresh.click()}var EVERY2=200;function camera(found){let status=statusLine(),video=h("video",{muted:!0,playsinline:!0,"aria-label":t("c\
amera.picture")}),start3=button({name:"scan",label:t("camera.start"),out:{clear:status.clear,show:()=>{}}},scan),stop=h(
"button",{type:"button",class:"quiet","data-do":"stop-scan",onclick:()=>end()},t("do.stop")),element=h("div",{class:"cam\
era"},start3,video,stop,status.element),stream=null;for(let el of[start3,video,stop])show(el,!1);available().then(yes=>show(
start3,yes));async function scan(){try{stream=await navigator.mediaDevices.getUserMedia({video:{facingMode:"environment"}})}catch{
return status.show(t("camera.refused"))}if(!element.isConnected)return end();video.srcObject=stream,await video.play();for(let el of[
video,stop])show(el,!0);show(start3,!1),look(new globalThis.BarcodeDetector({formats:["qr_code"]}))}async function look(detector){
for(;stream;await sleep(EVERY2)){let[code]=await detector.detect(video).catch(()=>[]);!code||!stream||(end(),found(code.
rawValue))}}function end(){for(let track of stream?.getTracks()??[])track.stop();stream&&show(start3,!0),stream=null,video.
srcObject=null;for(let el of[video,stop])show(el,!1)}return{element,end}}async function available(){if(!("BarcodeDetecto\
r"in globalThis)||!navigator.mediaDevices?.enumerateDevices)return!1;try{let formats=await globalThis.BarcodeDetector.getSupportedFormats(),
devices=await navigator.mediaDevices.enumerateDevices();return formats.includes("qr_code")&&devices.some(d=>d.kind==="vi\
deoinput")}catch{return!1}}function refusal(order,by){let who=by?by.phone||by.user_id:"";return order.status==="redeemed"?t(who?"redeem.usedBy":"re\
deem.used",{at:stamp(order.redeemed_at),who}):order.status!=="paid"?t("redeem.not",{status:t(`status.${order.status}`)}):
order.valid_from&&now()<Date.parse(order.valid_from)?t("redeem.early",{at:stamp(order.valid_from)}):order.valid_until&&now()>=
Date.parse(order.valid_until)?t("redeem.late",{at:stamp(order.valid_until)}):""}function mount8(root2){let post=intents(),
status=statusLine(),out=errorBox(),shown3=h("div",{class:"redemption","data-redemption":!0}),undoOf=(order,code)=>undo(async reason=>{
status.clear(),await post("/admin/redeem/undo",{code,reason}),show(shown3,!1),status.show(t("redeem.undone",{id:order.id})),
input.focus()});async function preview2(code){try{let found=await postMine("/admin/redeem/preview",{body:{code}});asked===
code&&render3(found,code)}catch(problem){if(asked!==code||problem.errors?.some(e=>e.field==="code")&&f.showErrors({code:t(
"invalid.code")}))return;if(!problem.shopName)throw problem;attr(shown3,"data-verdict","no"),shown3.replaceChildren(h("p",
{class:"shop"},problem.shopName),h("p",{class:"verdict",role:"alert"},t("redeem.otherShop"))),show(shown3,!0)}}function render3({
order,voucher,redeemed_by:by},code){let shop2=newID("shop"),title=newID("title"),use2=button({name:"use-code",kind:"prim\
ary",label:t("move.redeem"),about:`${shop2} ${title}`,out},async()=>{try{await post("/admin/redeem",{code})}catch(problem){
if(problem.code!=="invalid_state")throw problem;if(await preview2(code),input.value.trim()!==code)return;input.focus(),input.
select();return}status.show(t("redeem.done",{title:order.title,id:order.id})),input.value.trim()===code&&f.clear(),use2.
isConnected&&(attr(shown3,"data-verdict",null),shown3.replaceChildren(undoOf(order,code)),input.focus())}),no=refusal(order,
by);attr(shown3,"data-verdict",no?"no":"yes"),shown3.replaceChildren(h("p",{class:"shop",id:shop2},order.shop_name),h("d\
iv",{class:"head"},h("strong",{id:title},order.title),statusChip(order)),no?h("p",{class:"verdict",role:"alert"},no):"",
facts([[t("voucher.sub_title"),order.sub_title],[t("voucher.actual_value"),money(voucher.actual_value,voucher.currency)],
[t("redeem.paid"),amount2(order)],[t("voucher.valid_from"),order.valid_from&&stamp(order.valid_from)],[t("voucher.valid_\
until"),order.valid_until&&stamp(order.valid_until)],[t("orders.phone"),order.phone],[t("orders.paid_at"),order.paid_at&&
stamp(order.paid_at)],[t("orders.id"),session.may("read")?h("a",{href:pathOf(order)},order.id):order.id],[t("voucher.rul\
es"),order.rules]]),no?"":h("div",{class:"actions start"},use2),...canUndo(order)?[undoOf(order,code)]:[]),show(shown3,!0),
!no&&input.value.trim()===code&&use2.focus()}let f=form({name:"redeem",label:t("redeem.check"),fields:[{name:"code",kind:"\
text",label:t("redeem.code"),required:!0,max:64}],work:async()=>{status.clear(),out.clear(),show(shown3,!1);let code;do code=
asked,await preview2(code);while(asked!==code)}}),input=f.element.querySelector("input"),asked="";f.element.addEventListener(
"submit",()=>{asked=input.value.trim()||asked,input.select()},{capture:!0});let scanner=camera(code=>{f.write([["code",code]]),
f.element.requestSubmit()});show(shown3,!1);let counter=section(t("redeem.title"),f.element,scanner.element,out.element,
status.element,shown3);return attr(counter,"data-counter",!0),attr(input,"data-first",!0),counter.addEventListener("keyd\
own",event=>{!(event.key.length===1&&event.key!==" "&&!event.ctrlKey&&!event.metaKey&&!event.altKey)||event.target.matches(
"input")||(input.focus(),input.select())}),root2.replaceChildren(head(t("redeem.page")),counter),focusPage(),scanner.end}var EVERY3=700,NO_DEMO="Only in demo mode",BUYERS=5e3,STOCK=1e4,LONGEST=60,oneDecimal=n=>n==null?"":number(Math.round(n*
10)/10);function mount9(root2){let post=intents(),out=errorBox(),state=chip(""),progress=h("progress",{"aria-label":t("r\
ush.progress")}),list4=factList(),why=h("p",{class:"note","data-why":!0}),detail2=h("p",{class:"reference",lang:"en"}),results=verdicts(),
link4=h("a",{class:"link"},t("rush.sale")),stop=button({name:"stop",out},async()=>{await deleteMine("/admin/rush")}),last=section(
t("rush.last"),h("div",{class:"head"},h("p",{class:"sub"},link4),state),progress,list4.element,why,detail2,results.element,
h("div",{class:"actions"},stop)),panelPlace=h("div",{}),start3=form({name:"rush",label:t("rush.start"),fields:[{name:"bu\
yers",kind:"whole",label:t("rush.buyers"),required:!0,min:1,max:BUYERS,value:1e3},{name:"stock",kind:"whole",label:t("vo\
ucher.stock"),required:!0,min:1,max:STOCK,value:100},{name:"for",kind:"whole",label:t("rush.for"),note:t("rush.forNote"),
required:!0,min:0,max:LONGEST,value:20}],work:async values=>render3(await post("/admin/rush",values))}),live=null,shown3="",
was="";function render3(r){if(!last.isConnected)return;show(last,r.state!=="idle"),attr(last,"data-rush",r.state),setChip(
state,t(`rush.is.${r.state}`),{running:"on_sale",done:"good",failed:"bad"}[r.state]),attr(link4,"href",r.voucher_id&&`/c\
onsole/sales/${r.voucher_id}`),show(link4,r.voucher_id),attr(progress,"max",r.buyers||1),attr(progress,"value",r.answered??
0),list4.set([{id:"answered",name:t("rush.answered"),value:t("sales.soldOf",{n:number(r.answered??0),all:number(r.buyers??
0)})},{id:"orders",name:t("orders.title"),value:t("sales.soldOf",{n:number(r.orders??0),all:number(r.stock??0)})},{id:"t\
ook",name:t("rush.took"),value:r.took_ms?oneDecimal(r.took_ms/1e3):""},{id:"p50",name:t("live.p50"),value:oneDecimal(r.p50_ms)},
{id:"p99",name:t("live.p99"),value:oneDecimal(r.p99_ms)},...Object.entries(r.outcomes??{}).sort(([a],[b])=>a<b?-1:1).map(
([code,n])=>({id:code,name:has(`series.${code}`)?t(`series.${code}`):code,value:number(n)}))]);let known=has(`rush.why.${r.
reason}`);text(why,r.state==="failed"?t(`rush.why.${known?r.reason:"other"}`):""),text(detail2,known?"":r.detail??""),results.
set(r.verdicts??[]),show(stop,r.state==="running"),r.voucher_id&&r.voucher_id!=="0"&&showSale(r.voucher_id),was&&was!==r.
state&&announce(t(`rush.is.${r.state}`)),was=r.state}function showSale(id2){id2!==shown3&&(shown3=id2,live?.end(),live=panel(
id2),panelPlace.replaceChildren(live.element))}async function read(){try{render3(await getMine("/admin/rush"))}catch(problem){
if(problem.code!=="forbidden")throw problem;last.isConnected&&showForbidden(problem)}}function showForbidden(problem){let why2=problem.
title===NO_DEMO?h("p",{class:"empty","data-nodemo":!0},t("rush.noDemo")):h("p",{class:"empty","data-gate":!0},t("access.\
role"));live?.end(),root2.replaceChildren(head(t("rush.title")),why2)}return show(last,!1),root2.replaceChildren(head(t(
"rush.title"),h("p",{},t("rush.lead"))),section(t("rush.new"),start3.element),out.element,last,panelPlace),poll(last,out,
EVERY3,read),()=>live?.end()}var points2={shop:["shop_id"],price:["pay_value","actual_value","currency"],window:["end_at","begin_at"],validity:["vali\
d_until"],stock:["stock"],payment:["sale"],picture:["image_id"]},offer=["shop","price","validity"],signs2={holds:"✓",warning:"\
!",broken:"✕"},isOver=v=>v.status==="expired"||v.status==="off"&&v.type==="seckill"&&Date.parse(v.end_at)<=now(),secondsOf=words2=>[
...words2.matchAll(/([\d.]+)(h|m|s)/g)].reduce((sum,[,n,unit])=>sum+Math.round(n*{h:3600,m:60,s:1}[unit]),0);function checklist(id2,{
fix,actions:actions4,unsaved,published}){let post=intents(),out=errorBox(),summary=h("p",{class:"summary",role:"status"}),
list4=h("ul",{class:"checks"}),publish=button({name:"publish",kind:"primary",label:t("publish.do"),out},async()=>{if(await load()>
0)return;if(unsaved())return text(summary,t("publish.unsaved"));let facts2={price:money(current2.pay_value,current2.currency),
value:money(current2.actual_value,current2.currency),stock:current2.stock===void 0?"":number(current2.stock),begin:current2.
begin_at&&stamp(current2.begin_at),end:current2.end_at&&stamp(current2.end_at)},means=t(current2.type==="seckill"?"publi\
sh.means":"publish.meansVoucher",facts2);if(await confirm(t("publish.sure",{title:current2.title}),t("publish.do"),means)){
try{current2.status==="draft"?await post(`/admin/vouchers/${id2}/publish`):await patchMine(`/admin/vouchers/${id2}`,{body:{
status:"on"}})}catch(problem){throw await load(),problem}published()}}),element=section(t("publish.title"),list4),bar=h(
"div",{class:"sticky"},out.element,h("div",{class:"actions"},summary,actions4,publish)),current2=null;show(element,!1),show(
bar,!1);async function load(){let{problems,warnings}=await getMine(`/admin/vouchers/${id2}/checklist`),on2=current2.status===
"on",rows=Object.entries(points2).filter(([name])=>on2?offer.includes(name):current2.type==="seckill"||[...offer,"pictur\
e"].includes(name)).map(([name,fields3])=>{let of=found=>found.filter(p=>fields3.includes(p.field));return{name,problems:of(
problems),warnings:of(warnings)}}),broken=rows.filter(r=>r.problems.length>0).length;return list4.replaceChildren(...rows.
map(row)),text(summary,broken>0?t("publish.broken",{n:number(broken)}):t("publish.ready")),show(element,!on2||broken>0),
show(bar,!on2&&session.may("operate")),broken}function row({name,problems,warnings}){let state=problems.length>0?"broken":
warnings.length>0?"warning":"holds",found=[...problems,...warnings];return h("li",{"data-check":name,"data-ok":state},h(
"span",{class:"sign","aria-hidden":"true"},signs2[state]),h("strong",{},t(`check.${name}`)),h("span",{class:"word"},t(`c\
heck.is.${state}`)),h("div",{},found.map(p=>sentence(p,problems.includes(p)))),found.length>0&&session.may("operate")?fix(
found[0].field,t(`check.${name}`)):null)}function sentence(p,problem){if(p.field!=="sale")return h("p",{class:"note"},t(
`check.${problem?"problem":"warning"}.${p.field}`));if(p.detail.startsWith("has a pay_timeout"))return h("p",{class:"not\
e"},t("check.warning.pay_timeout",{time:duration(current2.pay_timeout)}));let short=/^lasts (\S+), so units that are not paid within (\S+) return/.
exec(p.detail);if(short){let[lasts,time3]=short.slice(1).map(words2=>duration(secondsOf(words2)));return h("p",{class:"n\
ote"},t("check.warning.lasts",{lasts,time:time3}))}let[detail2,lang]=detailOf(p.detail);return h("p",{class:"note"},t("c\
heck.sale")," ",h("span",{lang},detail2))}return{element,bar,render(v){let before=current2;if(current2=v,isOver(v)){show(
element,!1),show(bar,!1);return}before?.updated_at===v.updated_at&&before.stock===v.stock||(v.status!=="on"||before?.status!==
"on")&&reading(out,load)}}}function refunds(id2){let path=`/admin/vouchers/${id2}/refunds`,post=intents(),out=errorBox(),status=statusLine(),bar=h(
"progress",{"aria-label":t("refunds.progress")}),words2=h("p",{class:"note"}),progress=h("div",{"data-refunds":!0},bar,words2),
title="",over=!1,paid=0,start3=button({name:"refund-all",label:t("refunds.do"),out},async()=>{status.clear();let all2=await getMine(
path);if(all2.orders===0)return status.show(t("refunds.none"));let sum=money(all2.amount,all2.currency);if(!await confirm(
t("refunds.sure",{n:number(all2.orders),sum,title}),t("refunds.yes",{n:number(all2.orders)}),t("refunds.note")))return;let begun=0,
add=n=>{begun+=n,attr(bar,"max",Math.max(all2.orders,begun)),attr(bar,"value",begun),text(words2,t("refunds.of",{n:number(
begun),all:number(Math.max(all2.orders,begun))}))};add(0),show(progress,!0);try{for(let more2=!0;more2&&progress.isConnected;){
let answer=await post(path);add(answer.begun),more2=answer.more}}finally{show(progress,!1)}progress.isConnected&&status.
show(t("refunds.done",{n:number(begun)}))}),update=()=>show(start3,session.may("operate")&&over&&paid>0);return show(progress,
!1),update(),{start:start3,element:h("div",{},progress,status.element,out.element),render(v){({title}=v),over=v.type==="\
seckill"&&v.status!=="draft"&&(v.status!=="on"||v.state==="ended"),update()},count(orders){paid=orders.paid??0,update()}}}function mount10(root2,id2){let title=h("h1",{tabindex:-1},t("sale.title")),state=chip(""),top=h("header",{class:"lead"},
h("div",{class:"head"},title,state),h("a",{href:"/console/sales",class:"link"},t("sales.back"))),out=errorBox(),sub=h("p",
{class:"sub"}),list4=factList(),postRoom=intents(),changeRoom=async body2=>update(await postRoom(`/admin/vouchers/${id2}\
/room`,body2)),waitingRoom=room(changeRoom),revoked=statusLine(),revoke=button({name:"revoke",label:t("sale.revoke"),out},
async()=>{revoked.clear(),await confirm(t("sale.sure.revoke",{title:current2.title}),t("sale.revoke"))&&(await changeRoom(
{revoke:!0}),revoked.show(t("sale.revoked")))}),unpublish=button({name:"unpublish",label:t("sale.unpublish"),out},async()=>{
await confirm(await offQuestion(),t("sale.unpublish"),t("sale.offNote"))&&update(await patchMine(`/admin/vouchers/${id2}`,
{body:{status:"off"}}))}),remove=button({name:"delete",label:t("sale.delete"),out},async()=>{await confirm(t("sale.sure.\
delete",{title:current2.title}),t("sale.delete"),t("sale.deleteNote"))&&(await deleteMine(`/admin/vouchers/${id2}`),goFrom(
own,"/console/sales?tab=drafts"),announce(t("sale.deleted",{title:current2.title})))}),refund=refunds(id2),link4=(path,key,kind="\
link")=>h("a",{href:path,class:kind},t(key)),own=`/console/sales/${id2}`,editPath=`${own}/edit`,change3=[link4(editPath,
"sale.change","button primary"),link4(`${editPath}?field=stock`,"sale.stock","button quiet")],view=h("a",{target:"_blank",
class:"button quiet","data-do":"view"}),copy2=link4(`/console/new?from=${id2}`,"sale.clone","button quiet"),orders=link4(
`/console/orders?voucher_id=${id2}`,"sale.orders","button quiet"),operates=session.may("operate"),about=h("div",{class:"\
about",hidden:!0},sub,h("div",{class:"actions start"},change3,orders,view,operates?copy2:null,unpublish,refund.start,revoke),
revoked.element,refund.element),terms=section(t("sales.details"),list4.element,h("div",{class:"actions start"},link4(`/c\
onsole/audit?voucher_id=${id2}`,"sale.audit"))),publishing=checklist(id2,{fix:(field2,point)=>{let lead=()=>edit?edit.focus(
field2):go(`${editPath}?field=${field2}`);return h("button",{type:"button",class:"link","data-do":"fix","aria-label":t("\
publish.fixOf",{point}),onclick:lead},t("publish.fix"))},actions:operates?[remove,h("a",{href:`/sales/${id2}?preview`,target:"\
_blank",class:"button quiet","data-do":"preview"},t("sale.preview"))]:[],unsaved:()=>edit?.edited(),published:()=>{goFrom(
own,own),announce(t("publish.done"))}}),place=h("div",{}),live=null,edit=null,current2=null;function render3(v){current2=
v,text(title,v.title),text(sub,v.sub_title),setChip(state,...stateOf(v)),attr(about,"data-state",v.state);let values={id:v.
id,begin_at:v.begin_at<v.end_at&&stamp(v.begin_at),end_at:v.begin_at<v.end_at&&stamp(v.end_at),pay_value:money(v.pay_value,
v.currency),actual_value:money(v.actual_value,v.currency),stock:v.stock===void 0?"":number(v.stock),limit_per_user:v.limit_per_user,
valid_from:v.valid_from&&stamp(v.valid_from),valid_until:v.valid_until&&stamp(v.valid_until),"entry.mode":v.entry&&t(`vo\
ucher.entry.${v.entry.mode}`),"entry.opens_at":v.entry?.opens_at&&stamp(v.entry.opens_at),"entry.pass_ttl":v.entry?.pass_ttl,
"entry.challenge":v.entry?.challenge&&t(`voucher.entry.challenge.${v.entry.challenge}`),pay_timeout:v.pay_timeout&&formatMinutes(
v.pay_timeout),unpaid_limit:v.unpaid_limit,segments:v.segments,rules:v.rules};for(let el of change3)show(el,operates&&v.
status!=="draft");show(unpublish,operates&&v.status==="on"),show(orders,v.status!=="draft"),show(copy2,v.type==="seckill"),
show(revoke,operates&&v.status==="on"&&v.entry&&v.entry.mode!=="open"),show(view,v.type==="seckill"),show(remove,v.status===
"draft"),show(about,v.status!=="draft"||!operates),attr(view,"href",v.status==="on"?`/sales/${id2}`:`/sales/${id2}?previ\
ew`),text(view,t(v.status==="on"?"sale.view":"sale.preview")),show(terms,v.status!=="draft"||!operates),refund.render(v),
waitingRoom.render(v),list4.set(Object.entries(values).map(([name,value])=>({id:name,name:t(`voucher.${name}`),value}))),
edit?.reset(v),publishing.render(v)}function update(v,shops){let first=current2===null;if(render3(v),!!first){if(v.status===
"draft"){if(!operates)return;edit=forms2(v,shops,update),place.append(edit.element);return}v.type==="seckill"&&(live=panel(
id2,({voucher,room:room2,orders:orders2})=>{waitingRoom.showFigures(room2),refund.count(orders2),Date.parse(voucher.updated_at)>=
Date.parse(current2.updated_at)&&render3(voucher)}),place.append(waitingRoom.element,live.element))}}async function offQuestion(){
let{title:title2}=current2,stats=await orNull(getMine(`/admin/vouchers/${id2}/stats?hour=false`));if(!stats?.checked_at)
return t("sale.sure.offPlain",{title:title2});let{orders:orders2}=stats,[unpaid,paid]=["pending_payment","paid"].map(status=>number(
orders2[status]??0));return t("sale.sure.off",{title:title2,unpaid,paid})}return show(terms,!1),root2.replaceChildren(top,
out.element,about,publishing.element,place,terms,publishing.bar),reading(out,async()=>{let v=await getMine(`/vouchers/${id2}`);
return[v,v.status==="draft"&&operates?await all():[]]}).then(found=>found&&update(...found)),()=>live?.end()}var en={brand:"Seckill",nav:"Main",skip:"Skip to content",cancel:"Cancel",back:"Back",more:"Show more",loading:"Loading…",
working:"One moment…",login:"Log in",logout:"Log out",console:"Console","missing.title":"Page not found","missing.why":"\
The address is wrong, or what it led to has been removed.","more.nav":"Other pages","more.imprint":"Imprint","more.priva\
cy":"Privacy","more.shop":"Shop","more.docs":"API","more.problems":"Error codes",off:"−{off}%","time.days":"{days} d {\
clock}","time.seconds":"{s} s","time.minutes":"{n} min","time.minutesSeconds":"{n} min {s} s","state.upcoming":"Upcoming",
"state.on_sale":"On sale","state.sold_out":"Sold out","state.ended":"Ended","login.why":"We text you a code. The first l\
ogin creates your account.","login.phone":"Mobile number","login.format":"Such as 13800000000 or +86 138 0000 0000","log\
in.code":"6-digit code","login.send":"Send code","login.resend":"Resend code","login.resendIn":"Resend in {left}","login\
.sent":"Code sent. It is valid for two minutes.","login.demoAccounts":"Demo: no text message is sent. Pick an account:",
"role.buyer":"Buyer","role.viewer":"Viewer","role.redeemer":"Redeemer","role.operator":"Operator","role.admin":"Admin","\
login.ended":"Your session has ended. Log in again to continue.","login.sentBefore":"A code was sent to this number mome\
nts ago. Enter that code, or wait and have another one sent.","login.quota":"Too many codes for this number. You can req\
uest the next one at {at}.","login.demo":"Demo mode: the code {code} has been filled in for you.","login.enter":"Log in \
and continue","login.wrong":"The code is wrong, already used or expired. Check it, or request another one.","login.totp":"\
Authenticator code","login.totpNote":"The six digits that your authenticator app shows now.","login.wrongTOTP":"The digi\
ts are wrong or were used already. Enter the next ones that the app shows.","login.badphone":"This is not a mobile numbe\
r of a country that this shop serves. Landlines cannot receive codes.","login.as":"Logged in as","status.queued":"In the\
 queue","status.pending_payment":"Awaiting payment","status.paying":"Paying…","status.paid":"Paid","status.redeemed":"\
Used","status.cancelled":"Cancelled","status.refunding":"Refunding…","status.refunded":"Refunded","status.failed":"Fai\
led","error.network":"Cannot reach the server. Check your connection.","error.invalid_request":"Please check what you en\
tered.","error.unauthenticated":"Please log in again.","error.token_expired":"Please log in again.","error.forbidden":"Y\
ou are not allowed to do this.","error.entry_required":"Your entry pass was not accepted. Please try again.","error.chal\
lenge_required":"The security check did not succeed. Please try again. It needs a secure connection (https) and a curren\
t browser.","error.method_not_allowed":"This page is out of date. Reload it.","error.not_found":"Not found. It may have \
been removed.","error.invalid_state":"This is not possible in the current state.","error.idempotency_mismatch":"This pag\
e is out of date. Please reload it.","error.sale_not_started":"The sale has not started yet.","error.sale_ended":"The sa\
le has ended.","error.sold_out":"Sold out.","error.duplicate_order":"You already have an order for this.","error.order_i\
n_progress":"Your order is being processed.","error.totp_required":"Enter the six digits of your authenticator app.","er\
ror.unpaid_limit":"Too many of your orders are unpaid. Pay or cancel the open ones. A sale in which you let an order exp\
ire accepts no further order from you.","error.rate_limited":"Too many requests. Please wait a moment.","error.wait":"To\
o many requests. You can try again at {at}.","error.overloaded":"Demand is very high right now. Please try again.","erro\
r.unavailable":"The server is temporarily unavailable. Please try again.","error.internal":"Something went wrong on our \
side.","error.payment_failed":"The payment was declined. You can try again.","error.other":"The request failed.","error.\
reference":"Reference: {id}"},zh={brand:"秒杀",nav:"主导航",skip:"跳到正文",cancel:"取消",back:"返回",more:"\
加载更多",loading:"加载中…",working:"请稍候…",login:"登录",logout:"退出",console:"控制台","missing.\
title":"页面不存在","missing.why":"地址有误，或内容已被移除。","more.nav":"其他页面","more.imprint":"\
商家信息","more.privacy":"隐私政策","more.shop":"商城","more.docs":"接口文档","more.problems":"错误码",
off:"{off} 折","time.days":"{days} 天 {clock}","time.seconds":"{s} 秒","time.minutes":"{n} 分钟","time.minutesSecon\
ds":"{n} 分 {s} 秒","state.upcoming":"即将开始","state.on_sale":"抢购中","state.sold_out":"已抢光","state.en\
ded":"已结束","login.why":"我们会向你的手机发送验证码，首次登录自动注册。","login.phone":"手机号",
"login.format":"例如 13800000000 或 +86 138 0000 0000","login.code":"六位验证码","login.send":"发送验证码",
"login.resend":"重新发送","login.resendIn":"{left}后可重新发送","login.sent":"验证码已发送，两分钟内有效。",
"login.demoAccounts":"演示环境不发送短信，选择账号直接登录：","role.buyer":"买家","role.viewer":"只读",
"role.redeemer":"核销员","role.operator":"运营","role.admin":"管理员","login.ended":"登录已失效，请重新登录后继续。",
"login.sentBefore":"刚刚已向该号码发送验证码，请输入该验证码，或稍后重新发送。","login.quot\
a":"该号码的验证码次数已用完，请于 {at} 后重试。","login.demo":"演示环境：验证码 {code} 已自动填入。",
"login.enter":"登录并继续","login.wrong":"验证码错误、已使用或已过期，请核对或重新获取。","l\
ogin.totp":"动态验证码","login.totpNote":"身份验证器应用当前显示的六位数字。","login.wrongTOTP":"动\
态验证码错误或已使用过，请输入应用显示的下一个。","login.badphone":"号码有误，或不是本店支持的国家和地区的手机号。固定电话无\
法接收验证码。","login.as":"当前登录","status.queued":"排队中","status.pending_payment":"待支付","statu\
s.paying":"支付中…","status.paid":"已支付","status.redeemed":"已使用","status.cancelled":"已取消","status.\
refunding":"退款中…","status.refunded":"已退款","status.failed":"下单失败","error.network":"无法连接服务器，请检查网络。",
"error.invalid_request":"提交的内容有误，请检查后重试。","error.unauthenticated":"请重新登录。","er\
ror.token_expired":"请重新登录。","error.forbidden":"没有权限执行此操作。","error.entry_required":"入场凭证已\
失效，请重试。","error.challenge_required":"安全检测未通过，请重试。检测需要安全连接（https）和较新版本的浏览器。",
"error.method_not_allowed":"页面已过期，请刷新后重试。","error.not_found":"内容不存在或已下架。",
"error.invalid_state":"当前状态下无法操作。","error.idempotency_mismatch":"页面已过期，请刷新后重试。",
"error.sale_not_started":"秒杀尚未开始。","error.sale_ended":"秒杀已经结束。","error.sold_out":"已抢光。",
"error.duplicate_order":"你已购买过该商品。","error.order_in_progress":"你的订单正在处理中。","error.\
totp_required":"请输入身份验证器应用上的六位数字。","error.unpaid_limit":"你有过多未支付的订单，请先支付或取消。如果曾在该秒杀中超时\
未付，则不能再次下单。","error.rate_limited":"请求太频繁，请稍后再试。","error.wait":"请求太频繁，请于 {a\
t} 后重试。","error.overloaded":"当前抢购人数过多，请稍后再试。","error.unavailable":"服务暂时不可用，请稍后再试。",
"error.internal":"系统出了点问题，请稍后再试。","error.payment_failed":"支付失败，可以重新支付。",
"error.other":"操作失败，请重试。","error.reference":"问题编号：{id}"};function withOwn(own){return{en:{...en,
...own.en},zh:{...zh,...own.zh}}}var en2={brand:"Seckill console",foot:"All times are in your time zone: {zone}.","do.refresh":"Refresh","do.stop":"Stop",
"status.redeemed":"Redeemed","access.guest":"The console is for staff. Log in with an account that has a role.","access.\
buyer":"This account has no role here. An administrator of the server gives roles.","access.role":"Your role does not in\
clude this page.","access.shop":"Storefront","system.nav":"System","form.required":"Please fill this in.","form.whole":"\
Enter a whole number, without separators.","form.between":"Must be between {min} and {max}.","form.long":"At most {max} \
characters.","form.id":"An ID is a number.","form.amount":"Enter an amount without separators or a currency sign, such a\
s 9900 or 99.90.","form.minutes":"Enter minutes, such as 15 or 1:30.","form.decimals":"This currency has {places} decima\
ls.","form.time":"Enter a date and a time.","form.noTime":"Clocks skip this time when summer time begins: {zone}.","form\
.order":"The end must be after the start.","form.opens":"The waiting room must not open after the start.","form.over":"T\
his time is over.","form.price":"Must not be more than the face value.","form.lower":"It cannot be lowered after the pub\
lication: {n} or more.","form.currency":"The code of a currency, such as CNY.","form.zero":"Must not be 0.","form.refuse\
d":"Not accepted by the server.","form.day":"Enter a date.","invalid.title":"1 to 255 printable characters.","invalid.su\
b_title":"At most 255 printable characters.","invalid.rules":"At most 1024 printable characters.","invalid.reason":"1 to\
 255 printable characters.","invalid.shop_id":"Choose a shop.","invalid.image_id":"This picture is not stored. Upload it\
 again.","invalid.name":"1 to 128 printable characters.","invalid.area":"At most 128 printable characters.","invalid.add\
ress":"At most 255 printable characters.","invalid.open_hours":"At most 32 printable characters.","invalid.currency":"An\
 ISO 4217 currency code, such as CNY.","invalid.pay_value":"An amount from 0 to 1,000,000,000.","invalid.actual_value":"\
An amount from 0 to 1,000,000,000.","invalid.stock":"The number of units is out of range.","invalid.limit_per_user":"Fro\
m 1 to 100.","invalid.entry.mode":"Choose one of the options.","invalid.entry.pass_ttl":"From 1 to 3,600 seconds.","inva\
lid.entry.opens_at":"A time not after the start.","invalid.entry.rate":"From 1 to 10,000 customers per second.","invalid\
.entry.challenge":"Choose one of the options.","invalid.rate":"From 1 to 10,000 customers per second.","invalid.message":"\
At most 255 printable characters.","invalid.pay_timeout":"From 1 second to 24 hours.","invalid.unpaid_limit":"From 0 to \
100.","invalid.segments":"From 1 to 16.","invalid.begin_at":"A time after 2001, at most 100 years ahead.","invalid.end_a\
t":"A time after the start, between 2002 and 9998.","invalid.valid_from":"A date and a time.","invalid.valid_until":"A t\
ime after “Valid from”, and not before the end of the sale.","invalid.delta":"A number of units other than 0, within\
 the allowed range.","invalid.code":"Code not found.","invalid.buyers":"The number of buyers is out of range.","invalid.\
for":"From 0 to 60 seconds.","open.unknown":"The request may have taken effect. Submit it again to find out; it never ta\
kes effect twice.","open.another":"The previous request ({open}) was not confirmed and may have taken effect. Submit thi\
s one as well?","open.do":"Submit this one as well","home.title":"Home","home.none":"No sale is running.","home.until":"\
Until {at}","home.allRunning":"All running sales","home.starts":"From {at}","home.todo":"To do","home.nothing":"Nothing \
needs you now.","home.upcoming":"Next","home.ended":"Last sales","home.ready":"ready to publish","home.lacks":"lacks {la\
cks}","home.and":", ","home.lacks.shop_id":"a shop","home.lacks.actual_value":"a face value","home.lacks.pay_value":"a p\
rice below its face value","home.lacks.currency":"a currency","home.lacks.end_at":"a time","home.lacks.valid_until":"a v\
alidity that lasts","home.lacks.stock":"units","home.lacks.sale":"a time","money.title":"Result","money.revenue":"Revenu\
e","money.paid":"Paid","money.paidAndRefunded":"Paid, with refunded ones","money.conversion":"Conversion","money.unpaid":"\
Unpaid","money.refunded":"Refunded","preview.untitled":"Untitled","preview.stock":"{n} {n|unit|units}","preview.starts":"\
Starts {at}","group.what":"What","group.price":"Price and stock","group.when":"When","group.fairness":"Fairness","group.\
advanced":"Advanced","tab.running":"Running","tab.upcoming":"Upcoming","tab.drafts":"Drafts","tab.ended":"Ended","tab.al\
l":"All","tab.plain":"({n} without a sale)","sales.nav":"Sales","sales.title":"Sales","sales.none":"No sales match.","sa\
les.new":"New sale","sales.newLead":"It is saved as a draft, which customers do not see. A title is enough to begin.","s\
ales.save":"Save draft","sales.details":"Sale details","sales.back":"All sales","sales.tabs":"Sales by state","sales.sea\
rch":"Search by title or ID","sales.find":"Search","sales.sold":"Sold","sales.soldOf":"{n} of {all}","voucher.id":"ID","\
voucher.title":"Title","voucher.sub_title":"Subtitle","voucher.rules":"Rules","voucher.shop_id":"Shop","voucher.chooseSh\
op":"Choose a shop","voucher.noShop":"There is no shop yet. Create one on the page Shops.","voucher.unknownShop":"Unknow\
n shop {id}","voucher.image_id":"Picture","voucher.image_idNote":"JPEG, PNG or WebP, at most 10 MB. It is shown in 16:9.",
"voucher.currency":"Currency","voucher.currencyNote":"ISO 4217 code, such as CNY. It cannot be changed later.","voucher.\
pay_value":"Price","voucher.actual_value":"Face value","voucher.faceValueNote":"Value when redeemed.","voucher.stock":"S\
tock","voucher.limit_per_user":"Limit per customer","voucher.entry.mode":"Entry","voucher.entry.open":"Open","voucher.en\
try.pass":"With a pass","voucher.entry.room":"Waiting room","voucher.entry.modeNote":"With a pass: purchases need a pass\
, which logged-in customers get from the start of the sale. Waiting room: customers wait in line and get a pass when it \
is their turn.","voucher.entry.pass_ttl":"Pass lifetime (seconds)","voucher.entry.pass_ttlNote":"Empty: 10, or 120 in a \
waiting room.","voucher.entry.opens_at":"Waiting room opens at","voucher.entry.opens_atNote":"Empty: 10 minutes before t\
he start.","voucher.entry.rate":"Admissions per second","voucher.entry.rateNote":"At most so many customers are admitted\
. Empty: 100.","voucher.entry.challenge":"Challenge","voucher.entry.challenge.off":"Off","voucher.entry.challenge.on":"O\
n","voucher.entry.challengeNote":"On: the customer's browser solves a puzzle before entry, which slows down bots.","vouc\
her.pay_timeout":"Time to pay (minutes)","voucher.pay_timeoutNote":"Such as 15, or 1:30 for a minute and a half. Unpaid \
orders are cancelled after it. Empty: the server's default.","voucher.unpaid_limit":"Allowed unpaid orders","voucher.seg\
ments":"Segments","voucher.segmentsNote":"Lane queue on a Redis Cluster: the parts over which the stock is spread, so th\
at one sale uses several nodes. Otherwise 1. It can be changed until a minute before the sale begins.","voucher.unpaid_l\
imitNote":"After this many expired unpaid orders, a customer cannot order again. 0: no limit. Empty: 1 with a pass or a \
waiting room, otherwise no limit.","voucher.begin_at":"Starts at","voucher.end_at":"Ends at","voucher.valid_from":"Valid\
 from","voucher.valid_until":"Valid until","voucher.validNote":"When it can be redeemed. Empty: always.","voucher.plain":"\
Voucher without a sale","voucher.zone":"In your time zone: {zone}.","voucher.state":"State","voucher.draft":"Draft","vou\
cher.on":"Published","voucher.off":"Off sale","voucher.expired":"Ended","sale.title":"Sale","sale.untitled":"Sale {id}",
"sale.delete":"Delete draft","sale.deleted":"“{title}” was deleted.","sale.deleteNote":"Nobody has seen it. This can\
not be undone.","sale.orders":"View orders","sale.audit":"View audit log","sale.change":"Edit sale","sale.back":"Back to\
 the sale","sale.clone":"Clone","sale.view":"View in storefront","sale.preview":"Preview","sale.unpublish":"Take off sal\
e","sale.save":"Save","sale.saved":"Saved. All pages update within a second.","sale.savedDraft":"Saved.","sale.same":"No\
thing was changed.","sale.revoke":"Revoke passes","sale.revoked":"All passes are void within a second. Customers can get\
 new ones.","sale.sure.revoke":"Revoke all passes of “{title}”? Customers who are about to buy need a new one.","sal\
e.stock":"Adjust stock","sale.delta":"Units","sale.deltaNote":"Use a negative number to remove unsold units.","sale.reas\
on":"Reason","sale.reasonNote":"Recorded in the audit log.","sale.apply":"Apply","sale.stockUpdated":"Stock updated: {n}\
 left.","sale.open":"The change of {delta} (“{reason}”) was not confirmed and may have been applied. Submit it again to \
find out; it is never applied twice.","sale.free":"Only {n} {n|unit is|units are} free. Units of active orders cannot be\
 removed.","sale.do.end":"End the sale","sale.sure.off":"Take “{title}” off sale? {unpaid} unpaid {unpaid|order|orders} \
and {paid} paid {paid|order|orders} stay valid.","sale.sure.offPlain":"Take “{title}” off sale? It can no longer be boug\
ht.","sale.offNote":"Unpaid orders can still be paid, and paid ones redeemed. Afterwards you can refund all paid orders \
on this page.","sale.sure.delete":"Delete the draft “{title}”?","sale.sure.price":"Change the price of “{title}” fro\
m {was} to {is}?","sale.do.price":"Change to {is}","sale.priceNote":"It is published. Orders that were placed keep their\
 price.","sale.sure.end":"End “{title}” now? The end time that you entered has already passed.","sale.sure.take":"Re\
move {n} {n|unit|units} from “{title}”?","refunds.do":"Refund all paid orders","refunds.sure":"Refund {n} paid {n|or\
der|orders} of “{title}”, {sum} in total?","refunds.note":"Redemption codes of these orders will stop working. Order\
s that were redeemed are not refunded. This cannot be undone.","refunds.yes":"Refund {n} {n|order|orders}","refunds.none":"\
No paid orders are left.","refunds.progress":"Refunds requested","refunds.of":"{n} of {all} {all|refund|refunds} request\
ed. Keep this page open.","refunds.done":"{n} {n|refund|refunds} requested.","alerts.stale":"No answer from the server s\
ince {at}. This page may be out of date. Reconnecting…","alerts.violation":"“{title}”: {what}. See what to do →",
"violation.oversold":"{n} {n|order|orders} more than units","violation.overLimit":"{n} {n|customer has|customers have} m\
ore orders than allowed","violation.tooMany":"{n} {n|unit|units} too many in stock","violation.tooFew":"{n} {n|unit|unit\
s} too few in stock","violation.unsold":"{n} unsold {n|unit|units} cannot be bought","violation.other":"its orders and u\
nits do not agree","alerts.more":"{n} more broken {n|invariant|invariants}","alerts.deadLetters":"Dead letters: {n}","al\
erts.refund":"The provider has not refunded order {id} in {n} {n|try|tries}: {error}","alerts.moreRefunds":"{n} more {n|\
refund that fails|refunds that fail}","alerts.notices":"Payment notices that could not be processed: {n}","alerts.events":"\
Order events that are not delivered: {n}","alerts.unchecked":"The invariants have not been checked since {at}.","alerts.\
neverChecked":"The invariants have not been checked yet.","alerts.badge":"Invariant broken","list.all":"{n} in total","l\
ist.more":"{n} shown, there are more","list.actions":"Actions","files.orders":"All orders as CSV","files.ordersOfSale":"\
Orders of the sale as CSV","files.payments":"All payments as CSV","files.paymentsOfSale":"Payments of the sale as CSV","\
files.audit":"All changes as CSV","files.auditOfSale":"Changes of the sale as CSV","files.requests":"All requests as CSV",
"publish.title":"Checklist","publish.do":"Publish","publish.ready":"Ready to publish.","publish.broken":"To be fixed: {n\
}.","publish.unsaved":"There are unsaved changes. Save them first.","publish.fix":"Change","publish.fixOf":"Change: {poi\
nt}","publish.sure":"Publish “{title}”?","publish.means":"{stock} {stock|unit|units} at {price} instead of {value}, \
on sale from {begin} to {end}. Customers see it within a second.","publish.meansVoucher":"{price} instead of {value}. Cu\
stomers see it within a second.","publish.done":"Published.","check.shop":"Shop","check.price":"Price","check.window":"S\
tart and end","check.validity":"Validity","check.stock":"Stock","check.payment":"Time to pay","check.picture":"Picture",
"check.is.holds":"OK","check.is.warning":"Note","check.is.broken":"To be fixed","check.problem.shop_id":"No shop is chos\
en, or it no longer exists. Choose one.","check.problem.actual_value":"The face value is 0. Enter what the voucher is wo\
rth in the shop.","check.problem.pay_value":"The price is more than the face value. Lower it.","check.problem.currency":"\
Nothing can be paid in this currency. Clone the sale and choose another one.","check.problem.end_at":"The sale is over. \
Choose a later end.","check.problem.valid_until":"The voucher can no longer be redeemed. Choose a later “Valid until”.",
"check.problem.stock":"There are no units. Add some.","check.warning.pay_value":"The price equals the face value, so the\
re is no discount.","check.warning.image_id":"The sale has no picture.","check.warning.begin_at":"The start has passed, \
so the sale begins when it is published.","check.warning.lasts":"The sale lasts {lasts}, so units that are not paid with\
in {time} come back after its end.","check.warning.pay_timeout":"Time to pay: {time} is too short; most payments will be\
 refunded.","check.sale":"The sale","error.too_large":"A proxy in front of the server does not accept a file of this siz\
e. Choose a smaller one, or raise the limit of the proxy (nginx: client_max_body_size 11m).","picture.alt":"Picture of t\
he sale","picture.upload":"Upload a picture","picture.replace":"Replace","picture.remove":"Remove","picture.uploading":"\
Uploading the picture…","picture.uploaded":"The picture is uploaded.","picture.wait":"The picture is still being uploa\
ded.","picture.type":"{name} is not a JPEG, PNG, WebP or GIF file.","picture.size":"{name} has {size} MB. At most 10 MB \
are accepted.","picture.refused":"{name} was refused. It must be an undamaged JPEG, PNG, WebP or GIF file. Save a file f\
or print (CMYK) as RGB, and make one of more than 50 megapixels smaller.","shops.title":"Shops","shops.lead":"Your locat\
ions.","shops.none":"No shops.","shops.new":"New shop","shops.back":"All shops","shops.change":"Edit shop","shops.create":"\
Create shop","shops.created":"“{name}” was created.","shop.id":"ID","shop.name":"Name","shop.area":"Area","shop.addr\
ess":"Address","shop.open_hours":"Opening hours","room.title":"Waiting room","room.isOpen":"Admitting","room.isPaused":"\
Paused","room.pause":"Pause admissions","room.resume":"Resume admissions","room.stopped":"Paused. Customers keep their p\
laces.","room.resumed":"Admissions continue.","room.lobby":"In the lobby","room.waiting":"In line","room.present":"Of th\
ese present","room.admitted":"Admitted so far","room.outstanding":"Valid passes, unused","room.used":"Valid passes, used",
"room.left":"Left so far","room.rate":"Admissions per second","room.setRate":"Set rate","room.rateSet":"At most {n} {n|c\
ustomer is|customers are} admitted per second.","room.message":"Message to waiting customers","room.messageNote":"Leave \
it empty to remove the message.","room.showMessage":"Show message","room.messageShown":"Waiting customers see the messag\
e within a second.","room.messageRemoved":"The message was removed.","live.waiting":"No data yet. Connecting…","live.s\
tale":"No data since {at}. The figures may be out of date. Reconnecting…","live.course":"Sales","live.technical":"Tech\
nical","live.invariants":"Invariants","live.repair":"Orders and units of this sale do not agree. What to do: check again\
 on the page Reconciliation, and repair what it can repair. What is left is wrong in the database: “seckill verify” name\
s the orders, and docs/operations.md says how to correct it.","live.checked":"Last checked: {at}.","live.table":"Figures\
 of the last ten seconds","live.database":"Unsold stock (database)","live.gate":"Reservable stock (Redis)","live.initial":"\
Initial stock","live.added":"Stock added","live.lag":"Queue depth (all sales)","live.oldest":"Oldest queued order (all s\
ales, s)","live.deadLetters":"Dead letters (all sales)","live.p50":"p50 latency (ms)","live.p99":"p99 latency (ms)","liv\
e.instances":"Servers","live.lane":"Order mode","invariant.I1":"No oversell","invariant.I2":"One order per user","invari\
ant.I3":"Conservation","invariant.I4":"Answers are true","invariant.I5":"No undersell","invariant.I6":"Order IDs are uni\
que","invariant.I1.means":"Active orders never exceed the total stock.","invariant.I2.means":"No user has more active or\
ders than the sale allows.","invariant.I3.means":"Unsold units and units of active orders add up to the total stock.","i\
nvariant.I4.means":"Each answer to a buyer matches the buyer's order.","invariant.I5.means":"Every unsold unit can be bo\
ught.","invariant.I6.means":"No two orders have the same ID.","invariant.holds":"holds","invariant.broken":"BROKEN","inv\
ariant.unknown":"not checked","plot.orders":"Orders per second","plot.sold":"Orders placed","plot.rate":"Last hour, per \
ten seconds","plot.left":"Last hour, units left","plot.refusals":"Rejections per second","plot.stock":"Remaining stock",
"plot.latency":"Response time (ms)","plot.batches":"Orders per transaction","plot.lag":"Queue depth (all sales)","plot.s\
ums":"Plot: {title}. Total: {figures}.","plot.last":"Plot: {title}. Now: {figures}.","series.ok":"Orders","series.sold":"\
Placed","series.left":"Left","series.queued":"Queued","series.durable":"Committed","series.accepted":"Accepted","series.\
refused":"Rejected","series.database":"Database","series.gate":"Redis","series.batch":"Batch size","series.lag":"Queue (\
all sales)","series.p50":"p50 (ms)","series.p99":"p99 (ms)","series.sold_out":"Sold out","series.duplicate_order":"Dupli\
cate","series.order_in_progress":"In progress","series.rate_limited":"Rate limited","series.overloaded":"Overloaded","se\
ries.unavailable":"Unavailable","series.other":"Other","orders.title":"Orders","orders.one":"Order","orders.number":"Ord\
er {id}","orders.back":"All orders","orders.find":"Find orders","orders.search":"Search","orders.any":"Any","orders.none":"\
No orders match.","orders.id":"Order","orders.status":"Status","orders.phone":"Phone","orders.reveal":"Show number","ord\
ers.revealed":"The number is shown. The audit log has an entry.","orders.amount":"Amount","orders.user_id":"Customer","o\
rders.find.phone":"Phone number or last four digits","orders.find.id":"Order ID","orders.find.title":"Sale title","order\
s.find.from":"Placed from","orders.find.to":"Placed until","orders.find.payment_ref":"Payment reference","orders.find.st\
atus":"Status","orders.find.voucher_id":"Sale ID","orders.find.user_id":"User ID","orders.fourDigits":"Enter the last fo\
ur digits.","orders.days":"Must not be before the first day.","orders.wrong.phone":"Not a phone number. Enter all of it,\
 or the last four digits.","orders.wrong.phone_end":"More than 1,000 customers match. Enter the whole number.","orders.w\
rong.title":"More than 50 sales match. Enter more of the title.","orders.created_at":"Placed at","orders.expires_at":"Pa\
yment due","orders.paid_at":"Paid at","orders.redeemed_at":"Redeemed at","orders.cancelled_at":"Cancelled at","orders.re\
funded_at":"Refunded at","orders.ahead":"Orders ahead","orders.reason":"Failure reason","move.cancel":"Cancel","move.ref\
und":"Refund","move.redeem":"Redeem","move.none":"Nothing can be done for an order in this state.","move.noneRedeemed":"\
Redeemed orders can't be changed.","move.yes.cancel":"Cancel order","move.yes.refund":"Refund","move.yes.redeem":"Redeem",
"move.sure.cancel":"Cancel order {id} of {phone}? The unit goes back on sale immediately.","move.sure.refund":"Refund or\
der {id} of {phone}? The redemption code will stop working.","move.sure.redeem":"Redeem order {id} of {phone} without th\
e buyer's code?","move.done.cancel":"Cancelled.","move.done.refund":"Refund requested.","move.done.redeem":"Redeemed.","\
redeem.title":"Redemption code","redeem.page":"Redeem","redeem.otherShop":"This is a voucher of another shop.","redeem.e\
arly":"Not valid before {at}.","redeem.late":"Expired on {at}.","camera.start":"Scan with the camera","camera.picture":"\
Picture of the camera","camera.refused":"The camera is not available. Allow it for this page, or type the code.","redeem\
.code":"Code of the customer","redeem.done":"“{title}” has been redeemed (order {id}).","redeem.check":"Check code",
"redeem.paid":"Paid","redeem.used":"Already redeemed on {at}.","redeem.usedBy":"Already redeemed on {at} by {who}.","red\
eem.not":"Cannot be redeemed. Status: {status}.","redeem.undo":"Undo the redemption","redeem.undoReason":"What went wron\
g","redeem.undone":"The redemption of order {id} has been undone. The code is valid again.","redeem.note":"The code prov\
es that the order belongs to the buyer. Redeem by code whenever possible.","payments.title":"Payments","payments.none":"\
No payments.","payments.tries":"{n} {n|try|tries}: {error}","payments.outside":"Money returned outside the provider","pa\
yments.outside.lead":"If the provider cannot refund a payment, pay the buyer in another way, and record it here. The pro\
vider is not requested again.","payments.outside.ref":"Payment","payments.outside.reason":"How and why","payments.outsid\
e.do":"Record","payments.outside.sure":"Has the buyer received {amount} already? This cannot be undone.","payments.outsi\
de.done":"Recorded.","payments.ref":"Reference","payments.created_at":"Created","payments.updated_at":"Updated","payment\
.pending":"Pending","payment.succeeded":"Succeeded","payment.failed":"Failed","payment.refunding":"Refunding","payment.r\
efunded":"Refunded","payment.disputed":"Disputed","notices.nav":"Payment notices","notices.title":"Unread payment notice\
s","notices.lead":"Signed notices of payment providers, and answers to queries, that could not be read or matched. They \
changed nothing, but money may have moved: compare each with the provider’s dashboard, then close it.","notices.none":"\
No open notices.","notices.received_at":"First received","notices.reason":"Problem","notices.source":"Source","notices.s\
ource.notice":"notice","notices.source.query":"query","notices.times":"Times","notices.body":"Content","notices.close":"\
Close","notices.why":"What was done","notices.closed":"Closed.","events.nav":"Webhooks","events.title":"Webhook deliveri\
es","events.lead":"Webhook deliveries to SECKILL_EVENTS_URL: one per order placed or changed, retried for three days. Wi\
thout that setting there are none.","events.none":"No deliveries.","events.find":"Find deliveries","events.show":"Show",
"events.status.all":"All","events.status.pending":"Pending","events.status.delivered":"Delivered","events.status.failed":"\
Failed","events.created_at":"Created at","events.type":"Event","events.tries":"Attempts","events.next_try_at":"Next atte\
mpt","events.answer":"Answer","events.payload":"Payload","events.repeat":"Send again","events.repeated":"Will be sent wi\
thin a second.","deadLetters.title":"Dead letters","deadLetters.lead":"Queued orders that failed after all retries. Thei\
r stock was returned, and the buyers were notified.","deadLetters.none":"No dead letters.","deadLetters.buried_at":"Fail\
ed at","deadLetters.user_id":"User","deadLetters.reason":"Error","deadLetters.replay":"Replay","deadLetters.discard":"Di\
scard","deadLetters.sure.replay":"Replay order {id}? It reserves a unit again if stock is left.","deadLetters.sure.disca\
rd":"Discard the dead letter of order {id}? The order remains failed.","deadLetters.done.replay":"Returned to the queue.",
"deadLetters.done.discard":"Discarded.","reconcile.title":"Reconciliation","reconcile.lead":"Differences between the dat\
abase, the admission gate in Redis and the queue.","reconcile.refresh":"Check again","reconcile.apply":"Repair differenc\
es","reconcile.sure":"Repair the admission gate and the queue? They are made to match the database; the database is not \
changed.","reconcile.meaning":"The database is authoritative. A repair makes the admission gate and the queue match it a\
nd never changes the database. Problems in the database must be fixed by hand. Repeating a repair is safe.","reconcile.c\
lean":"No differences ({n} {n|sale|sales} checked).","reconcile.found":"Unresolved differences: {n}.","reconcile.repaire\
d":"Repaired: {n}.","reconcile.leftOut":"Sales not checked: {n}.","reconcile.at":"Compared at {at}.","reconcile.busy":"O\
rders arrived during the comparison, so some figures could not be compared exactly.","reconcile.findings":"Differences o\
f sale {id}","reconcile.kind":"Kind","reconcile.what":"Description","reconcile.count":"Count","reconcile.more":"and {n} \
more","reconcile.is.done":"Repaired","reconcile.is.repairable":"Repairable","reconcile.is.manual":"Needs manual action",
"audit.title":"Audit log","audit.lead":"What staff, buyers and the system changed, or all requests of staff, newest firs\
t.","audit.kind.change":"Changes","audit.kind.request":"Requests of staff","audit.by.admin":"Staff","audit.by.buyer":"Bu\
yers","audit.by.provider":"Payment providers","audit.by.system":"The system","audit.by.any":"Everyone","audit.find.kind":"\
Entries","audit.find.actor":"Changes by","audit.find.action":"Action","audit.find.actor_id":"User ID","audit.find.vouche\
r_id":"Sale ID","audit.find.order_id":"Order ID","audit.find.target":"Object ID","audit.request":"Request","audit.status":"\
Result","audit.unknown":"unknown","audit.network":"Network","audit.none":"No entries.","audit.find":"Find entries","audi\
t.show":"Filter","audit.at":"Time","audit.actor":"Actor","audit.detail":"Details","audit.change":"{field}: {was} → {is}",
"audit.field.status":"Status","audit.field.pay_value":"Price (smallest unit)","audit.field.actual_value":"Face value (sm\
allest unit)","audit.field.pay_timeout":"Time to pay","audit.field.entry":"Entry","audit.field.entry_epoch":"Generation \
of passes","audit.field.paused":"Paused","audit.field.type_id":"Category","audit.value.on":"Published","audit.value.off":"\
Unpublished","audit.value.true":"Yes","audit.value.false":"No","actor.buyer":"Buyer","actor.admin":"Staff","actor.provid\
er":"Payment provider","actor.system":"System","action.pay":"Paid","action.cancel":"Cancelled","action.expire":"Payment \
expired","action.redeem":"Redeemed","action.refund":"Refund requested","action.refunded":"Refunded","action.create_vouch\
er":"Sale created","action.create_shop":"Shop created","action.change_shop":"Shop changed","action.change_voucher":"Sale\
 changed","action.delete_voucher":"Draft deleted","action.change_stock":"Stock adjusted","action.revoke_passes":"Passes \
revoked","action.change_room":"Waiting room changed","action.replay_dead_letter":"Dead letter replayed","action.discard_\
dead_letter":"Dead letter discarded","action.return_money":"Unmatched payment: refund issued","action.money_returned":"M\
oney returned","action.close_notice":"Payment notice closed","action.undo_redeem":"Redemption undone","action.return_out\
side":"Returned outside the provider","action.dispute":"Payment disputed","rush.title":"Load simulation","rush.lead":"Cr\
eates a demo sale and simulates buyers against it over HTTP.","rush.new":"New simulation","rush.buyers":"Buyers","rush.f\
or":"Buyers arrive over (seconds)","rush.forNote":"0: all at once.","rush.start":"Start","rush.last":"Last simulation","\
rush.sale":"View sale","rush.progress":"Buyers with a response","rush.answered":"Responses","rush.took":"Duration (s)","\
rush.is.idle":"Not started","rush.is.running":"Running","rush.is.done":"Done","rush.is.failed":"Failed","rush.why.stoppe\
d":"It was stopped before all buyers had a response.","rush.why.timeout":"It took longer than three minutes.","rush.why.\
shutdown":"The server was shut down meanwhile.","rush.why.other":"It could not be completed.","rush.noDemo":"This server\
 is not in demo mode and does not run load simulations. Run the command “seckill rush” from outside instead."},zh2={
brand:"秒杀控制台",foot:"所有时间均为你所在时区：{zone}。","do.refresh":"刷新","do.stop":"停止","s\
tatus.redeemed":"已核销","access.guest":"控制台仅供工作人员使用，请用有权限的账号登录。","acce\
ss.buyer":"当前账号没有控制台权限，权限由服务器管理员授予。","access.role":"你的角色不能使用此页面。",
"access.shop":"前台商城","system.nav":"系统","form.required":"请填写此项。","form.whole":"请输入整数，不带分隔符。",
"form.between":"须在 {min} 到 {max} 之间。","form.long":"最多 {max} 个字符。","form.id":"ID 应为数字。",
"form.amount":"请输入金额，不带千位分隔符和货币符号，例如 9900 或 99.90。","form.minutes":"请输入分钟数\
，例如 15 或 1:30。","form.decimals":"该货币有 {places} 位小数。","form.time":"请填写日期和时间。",
"form.noTime":"夏令时开始，时钟跳过了这一时刻：{zone}。","form.order":"结束时间须晚于开始时间。",
"form.opens":"等候室的开放时间不能晚于开始时间。","form.over":"该时间已过。","form.price":"售价不能高于\
面值。","form.lower":"发布后不能调低，至少为 {n}。","form.currency":"请输入货币代码，例如 CNY。",
"form.zero":"不能为 0。","form.refused":"服务器拒绝了此项内容。","form.day":"请输入日期。","invalid\
.title":"须为 1 到 255 个可见字符。","invalid.sub_title":"最多 255 个可见字符。","invalid.rules":"最多 10\
24 个可见字符。","invalid.reason":"须为 1 到 255 个可见字符。","invalid.shop_id":"请选择店铺。","in\
valid.image_id":"该图片不存在，请重新上传。","invalid.name":"须为 1 到 128 个可见字符。","invalid.\
area":"最多 128 个可见字符。","invalid.address":"最多 255 个可见字符。","invalid.open_hours":"最多 32 个可见字\
符。","invalid.currency":"须为 ISO 4217 中的货币，例如 CNY。","invalid.pay_value":"金额须在 0 到十亿之间。",
"invalid.actual_value":"金额须在 0 到十亿之间。","invalid.stock":"数量超出允许范围。","invalid.limit_\
per_user":"须在 1 到 100 之间。","invalid.entry.mode":"请选择一种入场方式。","invalid.entry.pass_ttl":"须\
在 1 到 3,600 秒之间。","invalid.entry.opens_at":"不能晚于开始时间。","invalid.entry.rate":"每秒须在 1 到 10,0\
00 人之间。","invalid.entry.challenge":"请选择一项。","invalid.rate":"每秒须在 1 到 10,000 人之间。",
"invalid.message":"最多 255 个可见字符。","invalid.pay_timeout":"须在 1 秒到 24 小时之间。","invalid.un\
paid_limit":"须在 0 到 100 之间。","invalid.segments":"须在 1 到 16 之间。","invalid.begin_at":"须不早于 2002 年，\
且不晚于 100 年之后。","invalid.end_at":"须晚于开始时间，且在 2002 年到 9998 年之间。","invalid.\
valid_from":"请填写日期和时间。","invalid.valid_until":"须晚于生效时间，且不早于活动的结束时间。",
"invalid.delta":"数量不能为 0，也不能超出允许范围。","invalid.code":"未找到该核销码。","invalid.\
buyers":"人数超出允许范围。","invalid.for":"须在 0 到 60 秒之间。","open.unknown":"请求可能已生效。原样重新提交即可确认，不会\
重复执行。","open.another":"上一次提交的内容（{open}）未收到响应，可能已经生效。仍要另外提交这一项吗？",
"open.do":"另外提交","home.title":"首页","home.none":"当前没有进行中的活动。","home.until":"{at} 结束",
"home.allRunning":"全部进行中的活动","home.starts":"{at} 开抢","home.todo":"待办","home.nothing":"暂无待办事项。",
"home.upcoming":"即将开始","home.ended":"最近结束","home.ready":"可以发布","home.lacks":"还缺{lacks}","hom\
e.and":"、","home.lacks.shop_id":"店铺","home.lacks.actual_value":"面值","home.lacks.pay_value":"低于面值的售价",
"home.lacks.currency":"货币","home.lacks.end_at":"活动时间","home.lacks.valid_until":"未过期的有效期","home\
.lacks.stock":"库存","home.lacks.sale":"活动时间","money.title":"经营数据","money.revenue":"销售额","money.\
paid":"已支付","money.paidAndRefunded":"已支付（含已退款）","money.conversion":"支付转化率","money.unpa\
id":"未支付","money.refunded":"已退款","preview.untitled":"未命名","preview.stock":"共 {n} 份","preview.start\
s":"{at} 开抢","group.what":"商品","group.price":"价格与库存","group.when":"时间","group.fairness":"公平抢购",
"group.advanced":"高级设置","tab.running":"进行中","tab.upcoming":"即将开始","tab.drafts":"草稿","tab.ended":"\
已结束","tab.all":"全部","tab.plain":"（含 {n} 张普通券）","sales.nav":"活动","sales.title":"秒杀活动",
"sales.none":"没有符合条件的活动。","sales.new":"新建活动","sales.newLead":"先保存为草稿，顾客不可见。有标题即可保存。",
"sales.save":"保存草稿","sales.details":"活动内容","sales.back":"全部活动","sales.tabs":"按状态查看","s\
ales.search":"按标题或 ID 搜索","sales.find":"搜索","sales.sold":"已售","sales.soldOf":"{n} / {all}","voucher.\
id":"活动 ID","voucher.title":"标题","voucher.sub_title":"副标题","voucher.rules":"使用规则","voucher.shop_id":"\
店铺","voucher.chooseShop":"请选择店铺","voucher.noShop":"还没有店铺，请先在“店铺”页面新建。",
"voucher.unknownShop":"未知店铺 {id}","voucher.image_id":"图片","voucher.image_idNote":"支持 JPEG、PNG、WebP，不超过 10 MB\
，按 16:9 展示。","voucher.currency":"货币","voucher.currencyNote":"ISO 4217 货币代码，例如 CNY，发布后不可更改。",
"voucher.pay_value":"售价","voucher.actual_value":"面值","voucher.faceValueNote":"核销时可抵扣的金额。","v\
oucher.stock":"库存","voucher.limit_per_user":"每人限购","voucher.entry.mode":"入场方式","voucher.entry.open":"\
直接抢购","voucher.entry.pass":"凭证入场","voucher.entry.room":"排队入场","voucher.entry.modeNote":"凭证入场：下单须\
带入场凭证，登录用户在开售后才能领取。排队入场：用户在等候室排队，轮到时领取凭证。",
"voucher.entry.pass_ttl":"凭证有效期（秒）","voucher.entry.pass_ttlNote":"留空为 10 秒，排队入场为 120 秒。",
"voucher.entry.opens_at":"等候室开放时间","voucher.entry.opens_atNote":"留空为开始前 10 分钟。","voucher\
.entry.rate":"每秒放行人数","voucher.entry.rateNote":"每秒最多放行的人数，留空为 100。","voucher.ent\
ry.challenge":"人机验证","voucher.entry.challenge.off":"关闭","voucher.entry.challenge.on":"开启","voucher.entry\
.challengeNote":"开启后，浏览器须先完成一道计算题才能入场，可拖慢脚本。","voucher.pay_timeout":"\
支付时限（分钟）","voucher.pay_timeoutNote":"例如 15；1:30 表示一分半。超时未付的订单自动取消。留空则使用服务器的默认值。",
"voucher.unpaid_limit":"允许超时未付次数","voucher.segments":"库存分段","voucher.segmentsNote":"仅用于 queue 模式\
和 Redis 集群：把库存分成若干段，让一场秒杀用上多个节点；其他情况填 1。开售前一分钟起不能修改。",
"voucher.unpaid_limitNote":"用户超时未付的订单达到此数后不能再次下单。0 为不限；留空时，凭证入场和排队入场为 1，否则不限。",
"voucher.begin_at":"开始时间","voucher.end_at":"结束时间","voucher.valid_from":"生效时间","voucher.valid_unt\
il":"失效时间","voucher.validNote":"可到店使用的时间，留空为不限。","voucher.plain":"普通券（非秒杀）",
"voucher.zone":"你所在的时区：{zone}。","voucher.state":"状态","voucher.draft":"草稿","voucher.on":"上架",
"voucher.off":"下架","voucher.expired":"已结束","sale.title":"活动","sale.untitled":"活动 {id}","sale.delete":"\
删除草稿","sale.deleted":"已删除“{title}”。","sale.deleteNote":"草稿从未对外展示。删除后无法恢复。",
"sale.orders":"查看订单","sale.audit":"查看审计日志","sale.change":"修改活动","sale.back":"返回活动","\
sale.clone":"复制活动","sale.view":"查看前台页面","sale.preview":"预览","sale.unpublish":"下架","sale.save":"\
保存","sale.saved":"已保存，所有页面将在一秒内更新。","sale.savedDraft":"已保存。","sale.same":"没有\
改动。","sale.revoke":"作废入场凭证","sale.revoked":"所有入场凭证在一秒内失效，用户可以重新领取。",
"sale.sure.revoke":"作废“{title}”的所有入场凭证？正在抢购的用户需要重新领取。","sale.stock":"\
调整库存","sale.delta":"数量","sale.deltaNote":"输入负数可减少未售出的库存。","sale.reason":"原因",
"sale.reasonNote":"会记入审计日志。","sale.apply":"确认调整","sale.stockUpdated":"库存已更新，剩余 {n} 份。",
"sale.open":"库存调整 {delta}（“{reason}”）未收到响应，可能已经生效。原样重新提交即可确认，不会重复执行。",
"sale.free":"仅有 {n} 份未售库存；有效订单占用的库存不能减少。","sale.do.end":"立即结束","sale\
.sure.off":"确定下架“{title}”吗？{unpaid} 笔待支付和 {paid} 笔已支付的订单仍然有效。","sale.s\
ure.offPlain":"确定下架“{title}”吗？下架后无法购买。","sale.offNote":"待支付订单仍可支付，已支付订单仍可核销。下架后可在本页为所有已支\
付订单退款。","sale.sure.delete":"确定删除草稿“{title}”吗？","sale.sure.price":"将“{title}”的售价由 {was} 改\
为 {is}？","sale.do.price":"改为 {is}","sale.priceNote":"活动已上架。已下的订单价格不变。","sale.sur\
e.end":"确定立即结束“{title}”吗？填写的结束时间已过。","sale.sure.take":"确定从“{title}”减少 {n} 份库存吗？",
"refunds.do":"全部退款","refunds.sure":"为“{title}”的 {n} 笔已支付订单退款，共 {sum}？","refunds.no\
te":"这些订单的核销码将失效；已核销的订单不退款。此操作无法撤销。","refunds.yes":"退款 {n} 笔",
"refunds.none":"没有已支付的订单。","refunds.progress":"已发起的退款","refunds.of":"已发起 {n} / {all} 笔退款，请\
勿离开此页面。","refunds.done":"已发起 {n} 笔退款。","alerts.stale":"自 {at} 起服务器没有响应，页面数据可能已过时，正在重新连接…",
"alerts.violation":"“{title}”：{what}。查看处理方法 →","violation.oversold":"有效订单比库存多 {n} 笔",
"violation.overLimit":"{n} 位用户的订单超出限购","violation.tooMany":"库存多出 {n} 份","violation.tooFew":"\
库存少了 {n} 份","violation.unsold":"{n} 份未售库存无法购买","violation.other":"订单与库存不符","al\
erts.more":"另有 {n} 项异常","alerts.deadLetters":"死信：{n} 条","alerts.refund":"订单 {id} 已向渠道申请退款 {n} 次，仍未成功：{\
error}","alerts.moreRefunds":"另有 {n} 笔退款失败","alerts.notices":"无法处理的支付通知：{n}","alerts.e\
vents":"未送达的订单事件：{n} 条","alerts.unchecked":"自 {at} 起未能进行一致性检查。","alerts.neve\
rChecked":"尚未进行一致性检查。","alerts.badge":"一致性异常","list.all":"共 {n} 条","list.more":"已显示 {n\
} 条，还有更多","list.actions":"操作","files.orders":"导出全部订单 CSV","files.ordersOfSale":"导出该活动订单 CSV",
"files.payments":"导出全部支付 CSV","files.paymentsOfSale":"导出该活动支付 CSV","files.audit":"导出全部变更 CSV",
"files.auditOfSale":"导出该活动变更 CSV","files.requests":"导出全部请求 CSV","publish.title":"检查清单",
"publish.do":"发布","publish.ready":"检查通过，可以发布。","publish.broken":"需修改 {n} 项。","publish.\
unsaved":"有未保存的修改，请先保存。","publish.fix":"去修改","publish.fixOf":"去修改：{point}","publ\
ish.sure":"确定发布“{title}”吗？","publish.means":"共 {stock} 份，售价 {price}（面值 {value}），{begin} 开抢，{end} 结束。发布后一\
秒内顾客可见。","publish.meansVoucher":"售价 {price}（面值 {value}）。发布后一秒内顾客可见。","\
publish.done":"已发布。","check.shop":"店铺","check.price":"价格","check.window":"活动时间","check.validity":"\
有效期","check.stock":"库存","check.payment":"支付时限","check.picture":"图片","check.is.holds":"通过","che\
ck.is.warning":"提示","check.is.broken":"需修改","check.problem.shop_id":"未选择店铺，或店铺已不存在，请选择。",
"check.problem.actual_value":"面值为 0，请填写到店可抵扣的金额。","check.problem.pay_value":"售价高于面值，请调低售\
价。","check.problem.currency":"该货币无法用于支付，请复制活动并选择其他货币。","check.problem.\
end_at":"活动已结束，请推迟结束时间。","check.problem.valid_until":"有效期已过，无法核销，请推迟失效时间。",
"check.problem.stock":"没有库存，请先增加库存。","check.warning.pay_value":"售价等于面值，没有优惠。",
"check.warning.image_id":"活动没有图片。","check.warning.begin_at":"开始时间已过，发布后立即开抢。",
"check.warning.lasts":"活动只持续 {lasts}，支付时限为 {time}：超时未付的库存要到活动结束后才会退回。",
"check.warning.pay_timeout":"支付时限仅 {time}，多数付款会因超时被退回。","check.sale":"活动","error\
.too_large":"服务器前的代理不接受这么大的文件。请换用较小的文件，或调高代理的上限（nginx：client_max_body_size 11m）。",
"picture.alt":"活动图片","picture.upload":"上传图片","picture.replace":"更换","picture.remove":"移除","pictu\
re.uploading":"图片上传中…","picture.uploaded":"图片已上传。","picture.wait":"图片仍在上传，请稍候。",
"picture.type":"{name} 不是 JPEG、PNG、WebP 或 GIF 文件。","picture.size":"{name} 有 {size} MB，超过 10 MB 的上限。",
"picture.refused":"{name} 未被接受：须为完好的 JPEG、PNG、WebP 或 GIF 图片。印刷用图片（CMYK）请另存为 RGB，超过 5000 万像素的图片请先缩小。",
"shops.title":"店铺","shops.lead":"用户凭券到店消费的门店。","shops.none":"还没有店铺。","shops.new":"\
新建店铺","shops.back":"全部店铺","shops.change":"修改店铺","shops.create":"新建店铺","shops.created":"已\
新建“{name}”。","shop.id":"店铺 ID","shop.name":"名称","shop.area":"商圈","shop.address":"地址","shop.ope\
n_hours":"营业时间","room.title":"等候室","room.isOpen":"放行中","room.isPaused":"已暂停","room.pause":"暂停放\
行","room.resume":"恢复放行","room.stopped":"已暂停放行，排队位次保留。","room.resumed":"已恢复放行。",
"room.lobby":"等待开始","room.waiting":"正在排队","room.present":"其中在线","room.admitted":"累计放行","\
room.outstanding":"有效凭证（未使用）","room.used":"有效凭证（已使用）","room.left":"累计离开","ro\
om.rate":"每秒放行人数","room.setRate":"调整速度","room.rateSet":"每秒最多放行 {n} 人。","room.message":"\
给排队用户的公告","room.messageNote":"留空即撤下公告。","room.showMessage":"发布公告","room.messageS\
hown":"排队用户将在一秒内看到公告。","room.messageRemoved":"公告已撤下。","live.waiting":"暂无数据，正在连接…",
"live.stale":"自 {at} 起没有新数据，当前数据可能已过时，正在重新连接…","live.course":"销售走势",
"live.technical":"技术指标","live.invariants":"一致性检查","live.repair":"此活动的订单与库存不符。处理方法：在“数据核对”页面重新检查，并修复可修复\
的差异；其余问题出在数据库，可用 seckill verify 列出相关订单，再按 docs/operations.md 处理。",
"live.checked":"上次检查：{at}。","live.table":"最近十秒数据","live.database":"未售库存（数据库）",
"live.gate":"可预扣库存（Redis）","live.initial":"初始库存","live.added":"追加库存","live.lag":"队列积压（全部活动\
）","live.oldest":"最长排队时间（全部活动，秒）","live.deadLetters":"死信（全部活动）","live.p50":"\
p50 延迟（毫秒）","live.p99":"p99 延迟（毫秒）","live.instances":"服务器数量","live.lane":"下单模式",
"invariant.I1":"不超卖","invariant.I2":"一人一单","invariant.I3":"库存守恒","invariant.I4":"返回结果与订单一致",
"invariant.I5":"库存不滞留","invariant.I6":"订单号唯一","invariant.I1.means":"有效订单数不超过总库存。",
"invariant.I2.means":"每位用户的有效订单数不超过限购数量。","invariant.I3.means":"未售库存与有效订单占用的库存之和等于总库\
存。","invariant.I4.means":"返回给买家的结果与其订单一致。","invariant.I5.means":"未售出的库存均可购买。",
"invariant.I6.means":"订单号各不相同。","invariant.holds":"通过","invariant.broken":"异常","invariant.unknow\
n":"未检查","plot.orders":"每秒订单","plot.sold":"累计下单","plot.rate":"最近一小时（每十秒）","plo\
t.left":"最近一小时剩余库存","plot.refusals":"每秒拒绝","plot.stock":"剩余库存","plot.latency":"响应时间（毫秒\
）","plot.batches":"单事务订单数","plot.lag":"队列积压（全部活动）","plot.sums":"图表：{title}。合计：{figures\
}。","plot.last":"图表：{title}。当前：{figures}。","series.ok":"订单","series.sold":"下单","series.left":"\
剩余","series.queued":"排队","series.durable":"已入库","series.accepted":"已受理","series.refused":"已拒绝",
"series.database":"数据库","series.gate":"Redis","series.batch":"单事务订单数","series.lag":"队列（全部活动）",
"series.p50":"p50（毫秒）","series.p99":"p99（毫秒）","series.sold_out":"已抢光","series.duplicate_order":"重复\
下单","series.order_in_progress":"处理中","series.rate_limited":"请求过于频繁","series.overloaded":"过载","\
series.unavailable":"不可用","series.other":"其他","orders.title":"订单","orders.one":"订单","orders.number":"订\
单 {id}","orders.back":"全部订单","orders.find":"查找订单","orders.search":"查找","orders.any":"不限","orde\
rs.none":"没有符合条件的订单。","orders.id":"订单号","orders.status":"状态","orders.phone":"手机号","o\
rders.reveal":"显示完整号码","orders.revealed":"已显示完整号码，此次查看已记入审计日志。","ord\
ers.amount":"金额","orders.user_id":"用户","orders.find.phone":"手机号或后四位","orders.find.id":"订单号",
"orders.find.title":"活动标题","orders.find.from":"下单日期（起）","orders.find.to":"下单日期（止）","\
orders.find.payment_ref":"支付流水号","orders.find.status":"状态","orders.find.voucher_id":"活动 ID","orders.fi\
nd.user_id":"用户 ID","orders.fourDigits":"请输入手机号后四位。","orders.days":"结束日期不能早于开始日期。",
"orders.wrong.phone":"手机号有误，请输入完整号码或后四位。","orders.wrong.phone_end":"匹配的用户超过 1,000 个，\
请输入完整手机号。","orders.wrong.title":"匹配的活动超过 50 个，请输入更多标题文字。","order\
s.created_at":"下单时间","orders.expires_at":"支付截止","orders.paid_at":"支付时间","orders.redeemed_at":"核销\
时间","orders.cancelled_at":"取消时间","orders.refunded_at":"退款时间","orders.ahead":"前面的订单数","or\
ders.reason":"失败原因","move.cancel":"取消","move.refund":"退款","move.redeem":"核销","move.none":"该状态的订单没有可执\
行的操作。","move.noneRedeemed":"已核销的订单不能更改。","move.yes.cancel":"取消订单","move.yes.refu\
nd":"退款","move.yes.redeem":"核销","move.sure.cancel":"确定取消 {phone} 的订单 {id} 吗？取消后名额会立即重新开售。",
"move.sure.refund":"确定为 {phone} 的订单 {id} 退款吗？退款后核销码将失效。","move.sure.redeem":"确定不\
凭核销码，直接核销 {phone} 的订单 {id} 吗？","move.done.cancel":"已取消。","move.done.refund":"已发起退款。",
"move.done.redeem":"已核销。","redeem.title":"核销码","redeem.page":"核销","redeem.otherShop":"这是其他店铺的券。",
"redeem.early":"{at} 起才能使用。","redeem.late":"已于 {at} 过期。","camera.start":"用摄像头扫码","came\
ra.picture":"摄像头画面","camera.refused":"无法使用摄像头，请在浏览器中允许，或手动输入核销码。",
"redeem.code":"顾客的核销码","redeem.done":"“{title}”已核销（订单 {id}）。","redeem.check":"查验","r\
edeem.paid":"实付","redeem.used":"该券已于 {at} 核销。","redeem.usedBy":"该券已于 {at} 由 {who} 核销。",
"redeem.not":"无法核销，订单状态：{status}。","redeem.undo":"撤销核销","redeem.undoReason":"撤销原因",
"redeem.undone":"订单 {id} 的核销已撤销，核销码恢复有效。","redeem.note":"核销码可证明订单属于该买家，请尽量凭码核销。",
"payments.title":"支付记录","payments.none":"没有支付记录。","payments.tries":"已尝试 {n} 次：{error}","\
payments.outside":"渠道外退款","payments.outside.lead":"如果支付渠道无法退款，请先用其他方式把钱退给买家，再在此登记。登记后不再向渠道发起退款。",
"payments.outside.ref":"支付","payments.outside.reason":"退款方式与原因","payments.outside.do":"登记","paymen\
ts.outside.sure":"买家已经收到 {amount} 了吗？登记后无法撤销。","payments.outside.done":"已登记。",
"payments.ref":"流水号","payments.created_at":"发起时间","payments.updated_at":"更新时间","payment.pending":"\
处理中","payment.succeeded":"成功","payment.failed":"失败","payment.refunding":"退款中","payment.refunded":"已退\
款","payment.disputed":"已拒付","notices.nav":"支付通知","notices.title":"未处理的支付通知","notices.lea\
d":"支付渠道发来的、签名有效但无法解析或匹配的通知与查询结果。系统没有做任何变更，但款项可能已经变动：请与渠道后台核对，处理后关闭。",
"notices.none":"没有未处理的通知。","notices.received_at":"首次收到","notices.reason":"问题","notices.sou\
rce":"来源","notices.source.notice":"通知","notices.source.query":"查询","notices.times":"次数","notices.body":"\
内容","notices.close":"关闭","notices.why":"处理说明","notices.closed":"已关闭。","events.nav":"回调记录",
"events.title":"回调记录","events.lead":"向 SECKILL_EVENTS_URL 发送的回调：订单创建或变更时各一次，失败后重试三天。未配置该地址时没有记录。",
"events.none":"没有回调。","events.find":"查找记录","events.show":"查看","events.status.all":"全部","events\
.status.pending":"待发送","events.status.delivered":"已送达","events.status.failed":"发送失败","events.created\
_at":"创建时间","events.type":"事件","events.tries":"尝试次数","events.next_try_at":"下次尝试","events.ans\
wer":"对方应答","events.payload":"内容","events.repeat":"重新发送","events.repeated":"一秒内会重新发送。",
"deadLetters.title":"死信队列","deadLetters.lead":"多次重试后仍未能入库的排队订单。占用的库存已退回，买家已收到通知。",
"deadLetters.none":"没有死信。","deadLetters.buried_at":"失败时间","deadLetters.user_id":"用户","deadLetters.\
reason":"原因","deadLetters.replay":"重新投递","deadLetters.discard":"丢弃","deadLetters.sure.replay":"确定重新投递订单 \
{id} 吗？如有库存，会重新预扣一份。","deadLetters.sure.discard":"确定丢弃订单 {id} 的死信吗？订单仍为下单失败。",
"deadLetters.done.replay":"已重新进入队列。","deadLetters.done.discard":"已丢弃。","reconcile.title":"数据核对",
"reconcile.lead":"数据库、Redis 准入与队列之间的差异。","reconcile.refresh":"重新检查","reconcile.app\
ly":"修复差异","reconcile.sure":"确定修复 Redis 准入和队列吗？修复以数据库为准，不会改动数据库。",
"reconcile.meaning":"以数据库为准：修复会使 Redis 准入和队列与数据库一致，不会改动数据库。数据库自身的问题需人工处理。可以重复执行。",
"reconcile.clean":"没有差异（已检查 {n} 个活动）。","reconcile.found":"未解决的差异：{n} 项。","re\
concile.repaired":"已修复：{n} 项。","reconcile.leftOut":"未检查的活动：{n} 个。","reconcile.at":"比对时间：{a\
t}。","reconcile.busy":"比对期间仍有订单产生，部分数据无法精确比对。","reconcile.findings":"活动 {i\
d} 的差异","reconcile.kind":"类型","reconcile.what":"说明","reconcile.count":"数量","reconcile.more":"等另外 {n} 个",
"reconcile.is.done":"已修复","reconcile.is.repairable":"可修复","reconcile.is.manual":"需人工处理","audit.tit\
le":"审计日志","audit.lead":"工作人员、买家和系统的变更，或工作人员的全部请求，最新的在前。",
"audit.kind.change":"变更","audit.kind.request":"工作人员的请求","audit.by.admin":"工作人员","audit.by.buye\
r":"买家","audit.by.provider":"支付渠道","audit.by.system":"系统","audit.by.any":"所有人","audit.find.kind":"\
记录类型","audit.find.actor":"变更者","audit.find.action":"操作","audit.find.actor_id":"用户 ID","audit.find.\
voucher_id":"活动 ID","audit.find.order_id":"订单号","audit.find.target":"对象编号","audit.request":"请求","a\
udit.status":"结果","audit.unknown":"未知","audit.network":"网络","audit.none":"没有记录。","audit.find":"查找记\
录","audit.show":"筛选","audit.at":"时间","audit.actor":"操作者","audit.detail":"详情","audit.change":"{field}\
：{was} → {is}","audit.field.status":"状态","audit.field.pay_value":"售价（最小货币单位）","audit.field.a\
ctual_value":"面值（最小货币单位）","audit.field.pay_timeout":"支付时限","audit.field.entry":"入场方式",
"audit.field.entry_epoch":"凭证批次","audit.field.paused":"暂停放行","audit.field.type_id":"分类","audit.value\
.on":"已发布","audit.value.off":"已下架","audit.value.true":"是","audit.value.false":"否","actor.buyer":"买家",
"actor.admin":"工作人员","actor.provider":"支付渠道","actor.system":"系统","action.pay":"支付","action.cance\
l":"取消","action.expire":"超时未付","action.redeem":"核销","action.refund":"发起退款","action.refunded":"已退\
款","action.create_voucher":"新建活动","action.create_shop":"新建店铺","action.change_shop":"修改店铺","act\
ion.change_voucher":"修改活动","action.delete_voucher":"删除草稿","action.change_stock":"调整库存","action.r\
evoke_passes":"作废入场凭证","action.change_room":"修改等候室","action.replay_dead_letter":"重新投递死信",
"action.discard_dead_letter":"丢弃死信","action.return_money":"无主款项：发起退款","action.money_returned":"\
款项已退回","action.close_notice":"关闭支付通知","action.undo_redeem":"撤销核销","action.return_outside":"\
渠道外退款","action.dispute":"银行拒付","rush.title":"模拟抢购","rush.lead":"新建一个演示活动，并通过 HTTP 模拟买家抢购。",
"rush.new":"发起模拟抢购","rush.buyers":"买家数","rush.for":"买家到达时长（秒）","rush.forNote":"0 为同时\
到达。","rush.start":"开始","rush.last":"最近一次","rush.sale":"查看活动","rush.progress":"已收到响应的买家",
"rush.answered":"已响应","rush.took":"用时（秒）","rush.is.idle":"尚未开始","rush.is.running":"进行中","r\
ush.is.done":"已完成","rush.is.failed":"失败","rush.why.stopped":"在全部买家收到响应前被停止。","rush\
.why.timeout":"超过三分钟仍未完成。","rush.why.shutdown":"服务器在此期间关闭。","rush.why.other":"未能\
完成。","rush.noDemo":"本服务器未启用演示模式，无法在此发起模拟抢购。请在外部使用 seckill rush 命令。"},
texts_default=withOwn({en:en2,zh:zh2});var sessionKnown=!1,outage="",shown2="",landing=()=>session.may("read")?"/console":"/console/redeem",guarded=(title,mount11,permission)=>(root2,...args)=>{
location.pathname!==shown2&&forget(),shown2=location.pathname;let user2=session.user();if(session.may(permission))return mount11(
root2,...args);let notice=h("p",{class:"empty","data-gate":!0}),enter=h("button",{type:"button",class:"primary","data-do":"\
enter",onclick:()=>login()},t("login")),staff2=user2?.permissions?.length>0,waiting=!user2&&!sessionKnown?`${outage} ${t(
"loading")}`:staff2?t("loading"):"";text(notice,waiting||t(user2?"access.buyer":session.lastPhone()?"login.ended":"acces\
s.guest")),show(enter,sessionKnown&&!user2),root2.replaceChildren(head(t(title)),notice,h("div",{class:"center"},enter,user2&&
!staff2?h("a",{href:"/",class:"button primary"},t("access.shop")):null)),staff2&&location.pathname!==landing()&&(history.
replaceState(null,"",landing()),queueMicrotask(reload))},daily=[["/console","home.title","read"],["/console/sales","sale\
s.nav","read"],["/console/orders","orders.title","read"],["/console/redeem","redeem.page","redeem"],["/console/shops","s\
hops.title","read"]],system=[["/console/dead-letters","deadLetters.title","read"],["/console/events","events.nav","read"],
["/console/notices","notices.nav","read"],["/console/reconcile","reconcile.title","read"],["/console/audit","audit.title",
"read"],["/console/rush","rush.title","administer"]],linksOf=pages3=>pages3.filter(([,,permission])=>session.may(permission)).
map(([path,title])=>link(path,title)),page=(path,title,mount11,nav3,permission=[...daily,...system].find(([of])=>of===nav3)[2])=>({
path,title,nav:nav3,mount:guarded(title,mount11,permission)});start({texts:texts_default,account:account2,pages:[page(/^\/console$/,
"home.title",mount5,"/console"),page(/^\/console\/sales$/,"sales.title",list2,"/console/sales"),page(/^\/console\/new$/,
"sales.new",make2,"/console/sales","operate"),page(/^\/console\/sales\/(\d+)$/,"sale.title",mount10,"/console/sales"),page(
/^\/console\/sales\/(\d+)\/edit$/,"sale.change",mount3,"/console/sales","operate"),page(/^\/console\/orders$/,"orders.ti\
tle",list3,"/console/orders"),page(/^\/console\/orders\/(\d+)$/,"orders.one",one2,"/console/orders"),page(/^\/console\/redeem$/,
"redeem.page",mount8,"/console/redeem"),page(/^\/console\/shops$/,"shops.title",list,"/console/shops"),page(/^\/console\/shops\/(\d+)$/,
"voucher.shop_id",one,"/console/shops","operate"),page(/^\/console\/dead-letters$/,"deadLetters.title",mount2,"/console/\
dead-letters"),page(/^\/console\/events$/,"events.title",mount4,"/console/events"),page(/^\/console\/notices$/,"notices.\
title",mount6,"/console/notices"),page(/^\/console\/reconcile$/,"reconcile.title",mount7,"/console/reconcile"),page(/^\/console\/audit$/,
"audit.title",mount,"/console/audit"),page(/^\/console\/rush$/,"rush.title",mount9,"/console/rush")],missing:{title:"mis\
sing.title",mount:guarded("missing.title",missing2("/console","home.title"),"read")},links:()=>[...linksOf(daily),menu(linksOf(
system))],foot:()=>t("foot",{zone:zone()})});session.on(reload);start2();session.start(problem=>{outage=explain(problem),
reload()}).finally(()=>{sessionKnown=!0,session.user()||reload()});
