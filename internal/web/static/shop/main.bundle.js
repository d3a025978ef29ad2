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
active2=document.activeElement;if(!last||active2!==last&&active2!==document.body||last.isConnected&&!last.closest("[hidd\
en]"))return;let place2=trail.find(el=>el.matches("[aria-labelledby], [role='group'][tabindex]")&&el.isConnected&&el.checkVisibility()),
to=document.getElementById(place2?.getAttribute("aria-labelledby"))??place2??document.querySelector("main h1");to?.tabIndex<
0&&attr(to,"tabindex",-1),to?.focus({preventScroll:!0})}).observe(document.body,{subtree:!0,childList:!0,attributeFilter:[
"hidden"]})}function focusPage(){(document.querySelector("main [data-first]")??document.querySelector("main h1"))?.focus(
{preventScroll:!0})}var ids=0;function newID(what){return`${what}-${++ids}`}var samples=[],coarse=null;function observe(headers2,sent,got){let exact=headers2.has("X-Server-Time"),at=exact?Date.parse(
headers2.get("X-Server-Time")):Date.parse(headers2.get("Date"))+500;if(Number.isNaN(at))return;let fresh={offset:at-(sent+
got)/2,rtt:got-sent,device:Date.now()-performance.now()};dropContradicted(fresh,exact?100:1e3),exact?samples.push(fresh):
coarse=fresh,samples.length>8&&samples.shift()}function dropContradicted(fresh,slack){samples=samples.filter(s2=>Math.abs(
s2.offset+slept(s2)-fresh.offset)<=(s2.rtt+fresh.rtt)/2+slack)}function slept(sample){let ms=Date.now()-performance.now()-
sample.device;return ms>1e3?ms:0}function now(){let best=samples[0]??coarse;if(!best)return Date.now();for(let s2 of samples)
s2.rtt<=best.rtt&&(best=s2);return performance.now()+best.offset+slept(best)}var i18n_exports={};__export(i18n_exports,{choose:()=>choose,clockTime:()=>clockTime,discount:()=>discount,duration:()=>duration,
has:()=>has,hour:()=>hour,language:()=>language,languageOf:()=>languageOf,languages:()=>languages,left:()=>left,money:()=>money,
number:()=>number,onLanguage:()=>onLanguage,percent:()=>percent,stamp:()=>stamp,t:()=>t,use:()=>use,zone:()=>zone});var PLACES={BHD:3,BIF:0,CLF:4,CLP:0,DJF:0,GNF:0,IQD:3,ISK:0,JOD:3,JPY:0,KMF:0,KRW:0,KWD:3,LYD:3,OMR:3,PYG:0,RWF:0,TND:3,
UGX:0,UYI:0,UYW:4,VND:0,VUV:0,XAF:0,XOF:0,XPF:0},digits=currency=>PLACES[currency]??2;function topic(){let listeners=new Set;return{on(listener){return listeners.add(listener),()=>listeners.delete(listener)},
emit(...args){for(let listener of[...listeners])listener(...args)}}}function sleep(ms,signal){return new Promise(resolve=>{
if(signal?.aborted)return resolve();let timer3=setTimeout(done2,ms);function done2(){clearTimeout(timer3),removeEventListener(
"online",done2),signal?.removeEventListener("abort",done2),resolve()}addEventListener("online",done2),signal?.addEventListener(
"abort",done2)})}function backoff(n2,first,most){let full2=Math.min(most,first*2**n2);return full2/2+Math.random()*full2/
2}function storage(part){let refused=new Map;return{get(name){try{return refused.get(name)??window[part].getItem(name)}catch{
return null}},set(name,value){refused.delete(name);try{value===null?window[part].removeItem(name):window[part].setItem(name,
value)}catch{value!==null&&refused.set(name,value)}},names(){try{return Object.keys(window[part])}catch{return[]}}}}var forAll=storage(
"localStorage"),forTab=storage("sessionStorage");var REMEMBERED="seckill.language",changes=topic(),dictionaries={},current="en",languages={en:"English",zh:"中文"};function use(texts){
dictionaries=texts;let preferred=[forAll.get(REMEMBERED),...navigator.languages??[navigator.language]];select(preferred.
map(l2=>(l2??"").slice(0,2).toLowerCase()).find(l2=>l2 in texts)??"en")}function choose(language2){select(language2),forAll.
set(REMEMBERED,language2),changes.emit()}var language=()=>current,onLanguage=changes.on;function select(language2){current=
language2,document.documentElement.lang=language2==="zh"?"zh-CN":"en"}var has=key=>key in dictionaries[current];function t(key,values={}){
let text2=dictionaries[current][key];if(text2===void 0)throw new Error(`no text for ${key} in ${current}`);return text2.
replace(/\{(\w+)(?:\|([^|}]*)\|([^|}]*))?\}/g,(_2,name,one2,more3)=>one2===void 0?values[name]:String(values[name])==="1"?
one2:more3)}var locale=()=>current==="zh"?"zh-CN":(navigator.languages??[]).find(l2=>l2.startsWith("en"))??"en-GB",formatters=new Map;
function formatter(type,options){let key=`${type} ${locale()} ${JSON.stringify(options)}`;return formatters.has(key)||formatters.
set(key,new Intl[type](locale(),options)),formatters.get(key)}function money(amount,currency){let places3=digits(currency),
unit=10**places3,decimals={minimumFractionDigits:amount%unit===0?0:places3,maximumFractionDigits:places3},currencyDisplay=currency===
"CNY"?"narrowSymbol":"symbol",code=/^[A-Z]{3}$/i.test(currency)?currency:"XXX",words=formatter("NumberFormat",{style:"cu\
rrency",currency:code,currencyDisplay,...decimals}).format(amount/unit);return currency==="JPY"?words.replace(/(JP)?¥/,
"JP¥"):words}var number=n2=>formatter("NumberFormat").format(n2),percent=share=>formatter("NumberFormat",{style:"percen\
t"}).format(share);function discount(price,value){let share=price<value?Math.round(100-100*price/value):0;return share<=
0||share>=100?"":t("off",{off:current==="zh"?number((100-share)/10):share})}var year="numeric",dayAndTime={month:"short",
day:"numeric",hour:"2-digit",minute:"2-digit",second:"2-digit",hourCycle:"h23"},{month,day,...timeOfDay}=dayAndTime,{second,
...hourOfDay}=timeOfDay,DAY=864e5,stamp=time=>formatter("DateTimeFormat",{year,...dayAndTime}).format(new Date(time));function hour(time,now2){
let at=new Date(time),away=Math.abs(at-now2);if(away<DAY)return formatter("DateTimeFormat",hourOfDay).format(at);let far=away>
30*DAY&&at.getFullYear()!==new Date(now2).getFullYear();return formatter("DateTimeFormat",{month,day,...far?{year}:hourOfDay}).
format(at)}var clockTime=time=>formatter("DateTimeFormat",timeOfDay).format(time);function duration(seconds){let minutes=Math.
floor(seconds/60),rest=seconds%60;return minutes===0?t("time.seconds",{s:rest}):minutes>=10||rest===0?t("time.minutes",{
n:number(minutes)}):t("time.minutesSeconds",{n:minutes,s:rest})}var languageOf=words=>/\p{Script=Han}/u.test(words)?"zh-\
CN":"en";function zone(at=new Date){let format=new Intl.DateTimeFormat("en-GB",{timeZoneName:"longOffset"}),offset=format.
formatToParts(at).find(p2=>p2.type==="timeZoneName").value.replace("GMT","UTC");return`${format.resolvedOptions().timeZone}\
 (${offset})`}function left(ms,short=!1){let all2=Math.max(0,Math.ceil(ms/1e3)),two=n2=>String(n2).padStart(2,"0"),days=Math.
floor(all2/86400),minutes=`${two(Math.floor(all2/60)%60)}:${two(all2%60)}`;if(short&&all2<3600)return minutes;let clock=`${two(
Math.floor(all2/3600)%24)}:${minutes}`;return days>0?t("time.days",{days,clock}):clock}var MOMENT=6e4;function explain(problem2){if(problem2.retryAfter>MOMENT)return t("error.wait",{at:hour(now()+problem2.retryAfter,
now())});let key=`error.${problem2.code}`;return has(key)?t(key):t(problem2.status>=500?"error.internal":"error.other")}
var errorIn=element=>({clear:()=>text(element,""),show:problem2=>text(element,explain(problem2))});function reference(problem2){
return problem2.requestId?t("error.reference",{id:problem2.requestId}):""}var paths={alert:"M12 4 2.5 20h19zM12 10v4.5M12 17.2v.3",back:"M15 5l-7 7 7 7",bell:"M6 17v-6a6 6 0 0 1 12 0v6l1.5 2h-15\
zM10.5 21.5h3",calendar:"M4 6h16v14H4zM4 10.5h16M8.5 3v4M15.5 3v4",check:"M12 3a9 9 0 1 0 0 18a9 9 0 1 0 0-18M8 12.2l2.8\
 2.8L16 9.5",clock:"M12 3a9 9 0 1 0 0 18a9 9 0 1 0 0-18M12 7v5l3.5 2",console:"M4 4h7v9H4zM15 4h5v5h-5zM15 13h5v7h-5zM4 \
17h7v3H4z",cross:"M12 3a9 9 0 1 0 0 18a9 9 0 1 0 0-18M9 9l6 6M15 9l-6 6",exit:"M14 4H5v16h9M10 12h11M17 8l4 4-4 4",orders:"\
M6 3h12v18l-3-2-3 2-3-2-3 2zM9.5 8h5M9.5 12h5",pin:"M12 21c5-5 7-8.2 7-11a7 7 0 0 0-14 0c0 2.8 2 6 7 11zM12 7.5a2.5 2.5 \
0 1 0 0 5a2.5 2.5 0 1 0 0-5",share:"M12 15V3.5M8 7l4-3.5L16 7M5 12v8h14v-8",user:"M12 4a4 4 0 1 0 0 8a4 4 0 1 0 0-8M4.5 \
20.5a7.5 7.5 0 0 1 15 0"},icon=name=>svg("svg",{class:"icon",viewBox:"0 0 24 24","aria-hidden":"true"},svg("path",{d:paths[name]}));function channelOf(name){try{return new BroadcastChannel(name)}catch{return null}}async function exclusive(name,work,{signal,
alone=work}={}){let granted=!1;try{return await navigator.locks.request(name,{signal},()=>(granted=!0,work()))}catch(err){
if(granted||signal?.aborted)throw err;return alone()}}var NAME="seckill.session",BY_COOKIE={"X-Refresh-Token":"cookie"},EARLY=6e4,TIMEOUT=4e3,ATTEMPTS=3,RETRY_PAUSE=5e3,changes2=topic(),
channel=channelOf(NAME),user=null,lastPhone="",token="",expires=0,renewing=null,timer=0,starting=!0,hint=()=>forAll.get(
NAME)==="1";function adopt(login2,broadcast){let before2=user?.id;({access_token:token,user}=login2),expires=performance.
now()+login2.expires_in*1e3,scheduleRenewal(Math.max(1e3,login2.expires_in*1e3-EARLY)),broadcast&&channel?.postMessage({
login:login2}),user.id!==before2&&changes2.emit(user)}function scheduleRenewal(pause2){clearTimeout(timer),timer=setTimeout(
()=>session.renew().catch(()=>{}),pause2)}function drop(broadcast){clearTimeout(timer),token="",broadcast&&(forAll.set(NAME,
null),channel?.postMessage({logout:!0})),user&&(lastPhone=user.phone,user=null,changes2.emit(null))}channel?.addEventListener(
"message",({data})=>{data.login&&adopt(data.login,!1),data.logout&&drop(!1)});async function exchange(){for(let attempt=1;;attempt++)
try{return await json(await send("POST","/auth/refresh",{headers:BY_COOKIE,keepalive:!0,timeout:TIMEOUT}))}catch(problem2){
if(problem2.code!=="network"||attempt===ATTEMPTS)throw problem2;await sleep(backoff(attempt,100,500))}}async function renew(){
let stale=token;try{await exclusive(NAME,async()=>{if(token&&token!==stale)return;let login2=await exchange();token===stale&&
(forAll.set(NAME,"1"),adopt(login2,!0))})}catch(problem2){if(token!==stale)return;throw problem2.code==="unauthenticated"?
drop(!0):token&&scheduleRenewal(Math.max(problem2.retryAfter,RETRY_PAUSE*(1+Math.random()))),problem2}}var session={user:()=>user,
lastPhone:()=>lastPhone,may:permission=>user?.permissions?.includes(permission)??!1,on:changes2.on,async start(failed=()=>{}){
let failures2=0;for(;hint()&&!token;failures2++)try{await session.renew()}catch(problem2){hint()&&failed(problem2),await sleep(
Math.max(problem2.retryAfter,backoff(failures2,500,1e4)))}starting=!1,failures2>0&&!user&&changes2.emit(null)},pending:()=>starting&&
!token&&hint(),async token(){if(!token&&!hint())throw new Problem({code:"unauthenticated",status:401});return(!token||performance.
now()>expires)&&await session.renew(),token},renew(){return renewing??=renew().finally(()=>renewing=null),renewing},async sendCode(phone){
let response=await send("POST","/auth/code",{body:{phone},headers:BY_COOKIE});return{...await json(response),demo:response.
headers.get("X-Demo-Code")??""}},async login(phone,code,loginID,totp){await exclusive(NAME,async()=>{let body={phone,code,
login_id:loginID,...totp&&{totp}},login2=await json(await send("POST","/auth/login",{body,headers:BY_COOKIE}));forAll.set(
NAME,"1"),adopt(login2,!0)})},async logout({everywhere=!1}={}){try{await asUser("POST",everywhere?"/auth/logout-all":"/a\
uth/logout",{headers:BY_COOKIE})}catch(problem2){if(problem2.code!=="unauthenticated")throw problem2}drop(!0)},async erase(){
await asUser("DELETE","/me",{headers:BY_COOKIE}),drop(!0)},expired(rejected){rejected===token&&drop(!0)}};var BASE="/api/v1",TIMEOUT2=1e4,Problem=class extends Error{constructor(fields){super(`${fields.code}: ${fields.detail??
fields.title??""}`),Object.assign(this,{status:0,retryAfter:0,requestId:"",orderId:"",errors:[]},fields)}};function codeOf(status){
return status===413?"too_large":status===429?"rate_limited":status>=502&&status<=504?"unavailable":"internal"}async function problemOf(response){
let body={};try{body=await response.json()}catch{}return new Problem({code:body.code??codeOf(response.status),title:body.
title,detail:body.detail,status:response.status,requestId:body.request_id??response.headers.get("X-Request-Id")??"",orderId:body.
order_id??"",errors:body.errors??[],foreign:body.code===void 0,challenge:body.challenge,shopName:body.shop_name,retryAfter:1e3*
(Number(response.headers.get("Retry-After"))||0)})}async function send(method,path2,{body,key,token:token2,headers:headers2,
signal,timeout=TIMEOUT2,keepalive,stream:stream2,cache="no-store"}={}){let abort=new AbortController,stop2=()=>abort.abort();
signal?.addEventListener("abort",stop2),signal?.aborted&&stop2();let timer3=setTimeout(stop2,timeout),all2=new Headers(headers2);
token2&&all2.set("Authorization",`Bearer ${token2}`),key&&all2.set("Idempotency-Key",key);let form=body instanceof FormData;
body!==void 0&&!form&&all2.set("Content-Type","application/json");let sent=performance.now();try{let response=await fetch(
BASE+path2,{method,headers:all2,body:form?body:JSON.stringify(body),signal:abort.signal,cache,redirect:"error",keepalive});
if(observe(response.headers,sent,performance.now()),!response.ok)throw await problemOf(response);if(stream2)return response;
let{status,headers:headers3}=response;return new Response(status===204?null:await response.arrayBuffer(),{status,headers:headers3})}catch(err){
throw err instanceof Problem?err:new Problem({code:"network",detail:String(err)})}finally{clearTimeout(timer3)}}async function asUser(method,path2,{
as,...options}={}){let token2="",attempt=async()=>{if(token2=await session.token(),as&&session.user()?.id!==as)throw new Problem(
{code:"other_user"});return send(method,path2,{...options,token:token2})};try{return await attempt()}catch(problem2){if(problem2.
code==="token_expired")return await session.renew(),attempt();throw problem2.code==="unauthenticated"&&session.expired(token2),
problem2}}async function json(response){try{return response.status===204?null:await response.json()}catch(err){throw new Problem(
{code:"network",detail:String(err)})}}var orNull=answer=>answer.catch(problem2=>{if(!problem2.code)throw problem2;return null}),
get=async(path2,options)=>json(await send("GET",path2,options)),getMine=async(path2,options)=>json(await asUser("GET",path2,
options)),postMine=async(path2,options)=>json(await asUser("POST",path2,options));var deleteMine=async(path2,options)=>json(await asUser("DELETE",path2,options));function newKey(){return Array.from(crypto.
getRandomValues(new Uint8Array(16)),b2=>b2.toString(16).padStart(2,"0")).join("")}var STORED="seckill.open",LIFETIME=23*36e5,stored=JSON.parse(forTab.get(STORED)??"{}");var once=event=>{event.detail>1&&event.preventDefault()};function singleFlight(button,errorBox,work){let working=!1;return async event=>{
if(event?.preventDefault(),!(working||event?.detail>1||button.getAttribute("aria-disabled")==="true")){working=!0,errorBox.
clear(),attr(button,"aria-disabled","true"),attr(button,"data-busy",!0);try{await work()}catch(problem2){if(!problem2.code)
throw problem2;errorBox.show(problem2)}finally{working=!1,attr(button,"aria-disabled",null),attr(button,"data-busy",null)}}}}var VALID=12e4,open=null,quota=problem2=>problem2.retryAfter>VALID;function login({again=!1}={}){return open??=openDialog(
again).finally(()=>open=null),open}function demoAccounts(choose2){let accounts=(document.documentElement.dataset.demo??"").
split(";").filter(Boolean).map(a2=>a2.split(" "));return accounts.length===0?null:h("div",{class:"demo note"},h("p",{},t(
"login.demoAccounts")),h("ul",{},accounts.map(([role,number2])=>h("li",{},h("button",{type:"button",class:"quiet","data-\
role":role,onclick:()=>choose2(number2)},t(`role.${role}`)," ",h("span",{class:"number"},number2))))))}function openDialog(again){
return new Promise(resolve=>{let ids2={title:newID("login"),phone:newID("phone"),format:newID("format"),code:newID("code"),
note:newID("note"),error:newID("error"),totp:newID("totp"),totpNote:newID("note")},phone=h("input",{id:ids2.phone,type:"\
tel",name:"phone",autocomplete:"tel",inputmode:"tel",required:!0,"aria-describedby":`${ids2.format} ${ids2.error}`,oninput:()=>render2()}),
code=h("input",{id:ids2.code,type:"text",name:"code",autocomplete:"one-time-code",inputmode:"numeric","aria-describedby":`${ids2.
note} ${ids2.error}`}),totp=h("input",{id:ids2.totp,type:"text",name:"totp",autocomplete:"one-time-code",inputmode:"nume\
ric","aria-describedby":`${ids2.totpNote} ${ids2.error}`}),note=h("p",{id:ids2.note,class:"note"}),error2=h("p",{id:ids2.
error,class:"error",role:"alert"}),resend=h("button",{type:"button",class:"link",onclick:()=>resend.hasAttribute("aria-d\
isabled")||send2()},t("login.resend")),submit=h("button",{type:"submit",class:"primary",onclick:once}),second2=h("div",{
class:"field"},h("label",{for:ids2.code},t("login.code")),code,note,resend),third=h("div",{class:"field"},h("label",{for:ids2.
totp},t("login.totp")),totp,h("p",{id:ids2.totpNote,class:"note"},t("login.totpNote"))),demo=demoAccounts(enterAs),form=h(
"form",{onsubmit:next2,novalidate:!0},h("h2",{id:ids2.title},t("login")),again||!demo?h("p",{class:"note"},t(again?"logi\
n.ended":"login.why")):null,h("div",{class:"field"},h("label",{for:ids2.phone},t("login.phone")),phone,h("p",{id:ids2.format,
class:"note"},t("login.format")),demo),second2,third,error2,h("div",{class:"actions"},h("button",{type:"button",class:"q\
uiet",onclick:()=>dialog.close()},t("cancel")),submit)),dialog=h("dialog",{"aria-labelledby":ids2.title,class:"sheet",onclose:closed2},
form),sentTo="",loginID,needsTOTP=!1,done2=!1,working=!1,ticking=0,sent=()=>sentTo!==""&&sentTo===phone.value.trim();function render2(){
show(second2,sent()),show(third,sent()&&needsTOTP),text(submit,working?t("working"):sent()?t("login.enter"):t("login.sen\
d")),attr(submit,"aria-disabled",working)}function fail2(problem2){if(problem2.code==="totp_required"){needsTOTP&&text(error2,
t("login.wrongTOTP")),needsTOTP=!0,render2(),totp.value="",totp.focus();return}if(problem2.code==="rate_limited"&&!sent()){
text(error2,quota(problem2)?t("login.quota",{at:hour(now()+problem2.retryAfter,now())}):t("login.sentBefore"));return}let wrongCode=problem2.
code==="unauthenticated";text(error2,wrongCode?t("login.wrong"):problem2.code==="invalid_request"&&!sent()?t("login.badp\
hone"):explain(problem2))}async function work(what){if(working)return;working=!0;let number2=phone.value.trim();text(error2,
""),render2();try{await what()}catch(problem2){fail2(problem2),problem2.code==="rate_limited"&&!quota(problem2)&&(sentTo=
number2),problem2.retryAfter>0&&countDown(problem2.retryAfter)}finally{working=!1,render2()}}function countDown(ms){let until=performance.
now()+ms;clearInterval(ticking);let tick=()=>{let rest=until-performance.now();attr(resend,"aria-disabled",rest>0),text(
resend,rest>0?t("login.resendIn",{left:duration(Math.ceil(rest/1e3))}):t("login.resend")),rest<=0&&clearInterval(ticking)};
ticking=setInterval(tick,1e3),tick()}async function sendCode(){let number2=phone.value.trim(),answer=await session.sendCode(
number2);sentTo=number2,loginID=answer.login_id,needsTOTP=!1,totp.value="",render2(),sent()&&(text(note,answer.demo?t("l\
ogin.demo",{code:answer.demo}):t("login.sent")),code.value=answer.demo,countDown(answer.resend_after*1e3),code.focus())}
async function enter(){await session.login(phone.value.trim(),code.value.trim(),loginID,totp.value.trim()),done2=!0,dialog.
close()}let send2=()=>work(sendCode);function enterAs(number2){working||(phone.value=number2,sentTo="",work(async()=>{await sendCode(),
await enter()}))}function next2(event){if(event.preventDefault(),!sent()){if(phone.value.trim()===""){text(error2,t("log\
in.badphone")),phone.focus();return}send2();return}work(enter)}function closed2(){clearInterval(ticking),dialog.remove(),
document.activeElement===document.body&&focusPage(),resolve(done2)}again&&(phone.value=session.lastPhone()),render2(),document.
body.append(dialog),dialog.showModal(),phone.focus()})}var{t:t2}=i18n_exports,root=document.getElementById("page"),nav=document.getElementById("nav"),account=document.getElementById(
"account"),pages,missing,links,foot,badge,openAccount,unmount=()=>{},shown="",titled="",find=path2=>pages.find(p2=>p2.path.
test(path2)),here=()=>find(location.pathname)??missing,full=url2=>url2.pathname+url2.search,home=document.querySelector(
".brand").getAttribute("href"),staff=home==="/console",shop=JSON.parse(document.documentElement.dataset.shop??"{}");function open2(moved){
unmount(),shown=location.pathname;let page2=here();unmount=page2.mount(root,...(page2.path?.exec(location.pathname)??[]).
slice(1))??(()=>{}),showTitle(),markCurrent(),moved&&(scrollTo(0,0),focusPage())}function back(){let from=shown;for(let dialog of document.
querySelectorAll("dialog[open]"))dialog.close();open2(!0),[...root.querySelectorAll("a")].find(link2=>link2.getAttribute(
"href")===from)?.focus()}function brand(){return shop.name?staff?`${shop.name} · ${t2("console")}`:shop.name:t2("brand")}
function luminance(color){let[red,green,blue]=[1,3,5].map(at=>parseInt(color.slice(at,at+2),16)/255).map(part=>part<=.04045?
part/12.92:((part+.055)/1.055)**2.4);return .2126*red+.7152*green+.0722*blue}function dress(){if(shop.logo&&document.querySelector(
".mark").replaceWith(h("img",{class:"mark",src:shop.logo,alt:""})),!shop.color)return;let{style}=document.documentElement;
style.setProperty("--accent",shop.color),style.setProperty("--accent-press",`color-mix(in srgb, ${shop.color} 85%, ${luminance(
shop.color)>.179?"white":"black"})`),style.setProperty("--accent-ink",luminance(shop.color)>.179?"#000":"#fff")}function showTitle(){
let{title:title2}=here(),words=[badge(),typeof title2=="function"?title2():t2(title2),brand()].filter(Boolean).join(" · ");
words!==titled&&(document.title=titled=words)}function go(path2,state2=null){let to=new URL(path2,location.href);return find(
to.pathname)?((full(to)!==full(location)||state2!==history.state)&&history.pushState(state2,"",full(to)),open2(!0),!0):!1}function onClick(event){let link2=event.target.closest?.("a[href^='/']");!link2||event.defaultPrevented||event.button!==
0||event.metaKey||event.ctrlKey||event.shiftKey||event.altKey||go(link2.href)&&event.preventDefault()}function markCurrent(){
for(let link2 of nav.querySelectorAll("a")){let current2=link2.getAttribute("href")===here().nav;attr(link2,"aria-curren\
t",current2?"page":null),current2&&(nav.scrollLeft=link2.offsetLeft-nav.offsetLeft)}}var accountButton=(name,press2,...sign)=>h(
"button",{type:"button",class:"quiet","data-do":name,onclick:press2},sign,h("span",{class:"word"},t2(name)));function leave(){
let say=words=>text(account.querySelector("output"),words),button=accountButton("logout",event=>press2(event),icon("exit")),
press2=singleFlight(button,{clear:()=>say(""),show:problem2=>say(explain(problem2))},session.logout);return button}var accountOf=phone=>h(
"button",{type:"button",class:"phone link","data-do":"account","aria-haspopup":"dialog",onclick:openAccount},icon("user"),
h("span",{class:"word"},h("span",{class:"sr"},t2("login.as")," "),phone));function more(){let demo="demo"in document.documentElement.
dataset,lang=language();return[[shop.imprint,"more.imprint",!staff&&shop.imprint],[shop.privacy,"more.privacy",!staff&&shop.
privacy],["/","more.shop",staff],["/console","console",!staff&&demo],[`/docs?lang=${lang}`,"more.docs",staff||demo],[`/p\
roblems?lang=${lang}`,"more.problems",staff||demo]].filter(([,,shown3])=>shown3).map(([href,key])=>h("a",{href},t2(key)))}
var link=(href,key,name)=>h("a",{href},name&&icon(name),h("span",{class:"word"},t2(key)));function render(){text(document.
getElementById("brand"),brand()),text(document.getElementById("skip"),t2("skip")),text(document.getElementById("foot"),foot());
let elsewhere2=document.getElementById("more");attr(elsewhere2,"aria-label",t2("more.nav")),elsewhere2.replaceChildren(...more()),
attr(nav,"aria-label",t2("nav"));let user2=session.user();nav.replaceChildren(...links(user2)),markCurrent();let other=Object.
keys(languages).find(l2=>l2!==language()),switchLanguage=h("button",{type:"button",class:"quiet","data-do":"language",lang:other===
"zh"?"zh-CN":other,onclick:()=>choose(other)},languages[other]),phone=user2?user2.phone.replace(/^(.*)(....)(....)$/,"$1\
····$3"):"",held=account.contains(document.activeElement)?document.activeElement.dataset.do:null;account.replaceChildren(
h("output",{}),switchLanguage,...user2?[accountOf(phone),leave()]:session.pending()?[]:[accountButton("login",()=>login())]),
held&&account.querySelector(`[data-do="${held}"]`)?.focus(),show(account,!0)}function start(options){({pages,missing,links,
foot,account:openAccount,badge=()=>""}=options),use(options.texts),dress(),keepFocusNear(),document.addEventListener("cl\
ick",onClick),addEventListener("popstate",back),render(),open2(!1),session.on(render),onLanguage(()=>{render(),open2(!1)})}var missing2=(home2,key)=>root2=>{root2.replaceChildren(h("header",{class:"lead"},h("h1",{tabindex:-1},t("missing.title")),
h("p",{},t("missing.why"))),h("div",{},h("a",{href:home2,class:"button primary"},t(key))))};function confirm(question,yes,explanation=""){return new Promise(resolve=>{let id=newID("confirm"),why=explanation&&newID(
"why"),agreed=!1,agree=({detail})=>{detail>1||(agreed=!0,dialog.close())},dialog=h("dialog",{class:"sheet","aria-labelle\
dby":id,"aria-describedby":why||null,onclose:()=>{dialog.remove(),resolve(agreed)}},h("h2",{id},question),explanation?h(
"div",{id:why,class:"note"},explanation):null,h("div",{class:"actions"},h("button",{type:"button",class:"quiet",onclick:()=>dialog.
close()},t("back")),h("button",{type:"button",class:"primary",onclick:agree},yes)));document.body.append(dialog),dialog.
showModal()})}function save(content,name){let url2=URL.createObjectURL(content);h("a",{href:url2,download:name}).click(),setTimeout(()=>URL.
revokeObjectURL(url2),6e4)}var FILE="seckill-data.json",TIMEOUT3=15e3;async function download(){let response=await asUser("GET","/me/export",{timeout:TIMEOUT3});
save(await response.blob(),FILE)}function account2(){let id=newID("account"),error2=h("p",{class:"error",role:"alert"});
async function everywhere(){await session.logout({everywhere:!0}),dialog.close()}async function erase(){await confirm(t(
"account.sure"),t("account.delete"),t("account.consequences"))&&(await session.erase(),dialog.close())}function button(name,work){
let b2=h("button",{type:"button",class:"quiet","data-do":name},t(`account.${name}`));return b2.addEventListener("click",
singleFlight(b2,errorIn(error2),work)),b2}let dialog=h("dialog",{class:"sheet","aria-labelledby":id,onclose:()=>dialog.remove()},
h("h2",{id},t("account.title")),h("p",{class:"note"},t("account.note")),button("everywhere",everywhere),button("download",
download),button("delete",erase),error2,h("div",{class:"actions"},h("button",{type:"button",class:"primary",onclick:()=>dialog.
close()},t("back"))));document.body.append(dialog),dialog.showModal()}var buy_exports={};__export(buy_exports,{onChange:()=>onChange5,press:()=>press,purchase:()=>purchase,start:()=>start5});var human_exports={};__export(human_exports,{demanded:()=>demanded,forget:()=>forget,onChange:()=>onChange,prepare:()=>prepare,
solution:()=>solution,stateOf:()=>stateOf});var AHEAD=45e3+45e3*Math.random(),AFTER=6e5,AGAIN=1e3,RETRY=5e3,MARGIN=1e4,solutions=new Map,proofs=new Map,changes3=topic(),
onChange=changes3.on,demanded=v2=>v2?.entry?.challenge==="on",stateOf=id=>proofs.get(id)?.is??"";function prepare(v2,state2,now2){
let soon=state2==="upcoming"&&Date.parse(v2.begin_at)-now2<AHEAD,hurried=state2==="on_sale"&&now2-Date.parse(v2.begin_at)<
AFTER;if(!demanded(v2)||v2.entry.mode!=="pass"||!session.user()||!(soon||hurried)){proofs.delete(v2.id);return}let p2=proofs.
get(v2.id);if(p2||proofs.set(v2.id,p2={is:"working",next:0}),p2.running||performance.now()<p2.next)return;p2.running=!0;
let settle=is=>{p2.running=!1,p2.next=performance.now()+(is==="failed"?RETRY*(1+Math.random()):AGAIN),p2.is!==is&&(p2.is=
is,changes3.emit())};solution(v2.id).then(()=>settle("ready"),()=>settle("failed"))}function solution(id,challenge){let known2=solutions.
get(id);if(known2&&now()<known2.until)return known2.solution;let fresh={until:1/0};return fresh.solution=prove(id,challenge).
then(({solution:solution2,until})=>(fresh.until=until-MARGIN,solution2),problem2=>{throw solutions.get(id)===fresh&&solutions.
delete(id),problem2}),solutions.set(id,fresh),fresh.solution}function forget(id){proofs.delete(id),solutions.delete(id)}
session.on(()=>{proofs.clear(),solutions.clear()});async function prove(voucherID,challenge){if(challenge??=await request(
voucherID),!challenge)return{until:now()+6e4};let solution2=await solve(challenge.parameters);return{solution:btoa(JSON.
stringify({challenge,solution:solution2})),until:challenge.parameters.expiresAt*1e3}}async function request(voucherID){try{
await postMine(`/vouchers/${voucherID}/entry`,{as:session.user()?.id})}catch(problem2){if(!problem2.challenge)throw problem2;
return problem2.challenge}}var url=new URL("../proof/worker.js",import.meta.url).href,policy=globalThis.trustedTypes?.createPolicy(
"proof",{createScriptURL:()=>url});async function solve(parameters){let worker;try{return worker=new Worker(policy?.createScriptURL(
"")??url),await new Promise((done2,fail2)=>{worker.onmessage=({data})=>data.error?fail2(data.error):done2(data),worker.onerror=
fail2,worker.postMessage(parameters)})}catch(err){throw new Problem({code:"challenge_required",detail:String(err)})}finally{
worker?.terminate()}}var mine_exports={};__export(mine_exports,{act:()=>act,active:()=>active,doing:()=>doing,expired:()=>expired,fetchOne:()=>fetchOne,
hasMore:()=>hasMore,holding:()=>holding,list:()=>list,load:()=>load,loadState:()=>loadState,onChange:()=>onChange2,order:()=>order,
pin:()=>pin,put:()=>put,start:()=>start2,timeLeft:()=>timeLeft});var SILENCE=2e4,MOST_SILENT=2,MUTE=8e3,MOST_REFUSED=3,HELD=6e5,REFUSED=6e4,FIRST=500,MOST=15e3,SPREAD=3e3;async function follow(path2,{
signal,headers:own,lastID="",most=MOST,onEvent,onProblem,done:done2}){let silent=0,refused=0;for(let failures2=0;!signal.
aborted;failures2++){let retryAfter=0,renew3=!1,heard=!1,began=performance.now(),cut=new AbortController,stop2=()=>cut.abort();
signal.addEventListener("abort",stop2);try{let headers2={...own,Accept:"text/event-stream",...lastID&&{"Last-Event-ID":lastID}},
response=await asUser("GET",path2,{headers:headers2,signal:cut.signal,stream:!0,timeout:MUTE});if(response.status===204)
return 0;if(!response.headers.get("Content-Type")?.startsWith("text/event-stream"))return HELD;refused=0;let hear=()=>{heard||
onProblem?.(null),heard=!0,performance.now()-began>MUTE&&(silent=0)},fallSilent=()=>{silent++,stop2()};for await(let event of events(
response.body,hear,fallSilent)){if(failures2=0,renew3=event.event==="reauth")break;if(event.id&&(lastID=event.id),event.
data!==""&&onEvent(event),done2?.(event))return 0}}catch(err){if(signal.aborted)return 0;if(!(err instanceof Problem))throw err;
if(err.foreign&&err.status>=400&&err.status<500&&err.status!==429)return HELD;if(err.foreign&&err.status>=500&&++refused===
MOST_REFUSED)return REFUSED;if(onProblem?.(err),err.status===404||err.status===401)return 0;heard||=err.status!==0,retryAfter=
err.retryAfter}finally{signal.removeEventListener("abort",stop2),cut.abort()}if(!heard&&!signal.aborted&&performance.now()-
began>=MUTE||silent===MOST_SILENT)return HELD;renew3||await sleep(retryAfter+(failures2===0?Math.random()*SPREAD:backoff(
failures2,FIRST,most)),signal)}return 0}async function*events(body,hear,stop2){let reader=body.pipeThrough(new TextDecoderStream).
getReader(),timer3=setTimeout(stop2,MUTE),rest="",event={event:"message",id:"",data:""};try{for(;;){let{value,done:done2}=await reader.
read().catch(()=>({done:!0}));if(done2)return;hear(),clearTimeout(timer3),timer3=setTimeout(stop2,SILENCE);let lines=(rest+
value).split(`
`);rest=lines.pop();for(let line of lines)if(line==="")yield event,event={event:"message",id:"",data:""};else if(!line.startsWith(
":")){let colon=line.indexOf(": ");event[line.slice(0,colon)]=line.slice(colon+2)}}}finally{clearTimeout(timer3),reader.
cancel().catch(()=>{})}}var MAX_STREAMS=2,POLL=5e3,IDLE_POLLS=4,LOST=5e3,REVIVAL=36e5,PAYING=2e4,CHECKOUT="seckill.checkout",progress={queued:0,
pending_payment:1,paid:2,redeemed:3,refunding:3,cancelled:4,refunded:4,failed:4},final=order2=>["redeemed","cancelled","\
refunded","failed"].includes(order2.status),active=order2=>!["cancelled","refunded","failed"].includes(order2.status),expired=order2=>order2.
status==="cancelled"&&Date.parse(order2.cancelled_at)>=Date.parse(order2.expires_at),revivable=o2=>["failed","redeemed"].
includes(o2.status)&&now()-Date.parse(o2.redeemed_at??o2.created_at)<REVIVAL,idle=o2=>revivable(o2)||o2.status==="paid"||
o2.status==="pending_payment"&&timeLeft(o2)>0,orders=new Map,missing3=new Map,busy=new Map,streams=new Map,changes4=topic(),
channel2=channelOf("seckill.orders"),state="none",problem=null,onChange2=changes4.on,loadState=()=>({state,problem}),order=id=>orders.
get(id),doing=id=>busy.get(id)??{};function list(){return[...orders.values()].sort((a2,b2)=>b2.id.length-a2.id.length||(b2.
id<a2.id?-1:1))}var holding=voucherID=>list().filter(o2=>o2.voucher_id===voucherID&&active(o2));function put(order2){let before2=orders.
get(order2.id)?.status;keep(order2)&&(before2!==order2.status&&channel2?.postMessage({user:order2.user_id}),changes4.emit(
[order2]),updateStreams())}function keep(order2){if(order2.user_id!==session.user()?.id)return!1;let known2=orders.get(order2.
id);if(known2?.guessed)known2={status:known2.status};else if(known2&&progress[known2.status]>progress[order2.status]&&!takenBack(
known2.status,order2.status))return!1;return orders.set(order2.id,{...known2,...order2}),known2&&known2.status!==order2.
status&&busy.delete(order2.id),!known2&&forTab.get(CHECKOUT)===order2.id&&comeBack(order2),!0}function comeBack({id,status}){
if(forTab.set(CHECKOUT,null),status!=="pending_payment")return;let sent=performance.getEntriesByType("navigation")[0]?.type===
"navigate";busy.set(id,{action:"pay",submitted:!0,since:sent?performance.now():-PAYING}),checkPayment(id)}var takenBack=(from,to)=>from===
"failed"&&to!=="queued"||from==="redeemed"&&to==="paid",cursor=null,hasMore=()=>cursor!==null;async function load(more3=!1){
let user2=session.user()?.id;if(!user2)return;(state==="none"||state==="failed")&&(state="loading");let found=[];try{let page2=await getMine(
`/orders?limit=50${more3&&cursor?`&cursor=${cursor}`:""}`);if(session.user()?.id!==user2)return;(more3||state==="loading")&&
(cursor=page2.next_cursor),found=page2.items.filter(keep),[state,problem]=["loaded",null]}catch(err){if(session.user()?.
id!==user2)return;problem=err,state==="loading"&&(state="failed")}changes4.emit(found),updateStreams()}async function fetchOne(id){
try{put(await getMine(`/orders/${encodeURIComponent(id)}`)),missing3.delete(id)}catch(err){let known2=order(id);if(err.code!==
"not_found"||known2?.status!=="queued")throw err;missing3.has(id)||missing3.set(id,performance.now()),performance.now()-
missing3.get(id)>=LOST&&put({...known2,status:"failed",reason:"internal",guessed:!0})}return order(id)}async function act(id,action2){
let before2=doing(id);if(before2.action&&!before2.problem)return;let key=before2.action===action2?before2.key:newKey(),user2=session.
user()?.id;busy.set(id,{action:action2,key,since:performance.now()}),changes4.emit();try{let answer=await postMine(`/ord\
ers/${id}/${action2}`,{as:user2,key});if(answer.payment?.checkout_url&&(forTab.set(CHECKOUT,id),location.assign(answer.payment.
checkout_url)),put(action2==="pay"?answer.order:answer),answer.order?.status==="paid"&&await fetchOne(id).catch(()=>{}),
session.user()?.id!==user2)return;action2==="pay"&&order(id)?.status==="pending_payment"?(busy.set(id,{action:action2,key,
submitted:!0,since:performance.now()}),updateStreams()):busy.delete(id)}catch(err){if(session.user()?.id!==user2)return;
err.code==="invalid_state"?(busy.delete(id),await fetchOne(id).catch(()=>{}),order(id)?.status==="pending_payment"&&busy.
set(id,{action:action2,problem:err})):busy.set(id,{action:action2,key,problem:err})}changes4.emit()}async function checkPayment(id){
let was=doing(id);try{let payments=(await getMine(`/orders/${id}/payments`)).items;if(doing(id)!==was||order(id)?.status!==
"pending_payment")return;payments.length>0&&payments.every(p2=>p2.status==="failed")?(busy.set(id,{action:"pay",problem:{
code:"payment_failed"}}),changes4.emit()):performance.now()-was.since>PAYING&&(busy.delete(id),changes4.emit())}catch{}}
var lastIDs=new Map,heldUntil=0,pinned="";function pin(id){pinned=id,updateStreams()}var awaited=o2=>o2.id===pinned||!!doing(
o2.id).submitted;function watched(){if(document.hidden||!session.user()||performance.now()<heldUntil)return[];let rank2=o2=>awaited(
o2)?1:{queued:2,refunding:3}[o2.status];return list().filter(o2=>!final(o2)&&rank2(o2)).sort((a2,b2)=>rank2(a2)-rank2(b2)).
slice(0,MAX_STREAMS).map(o2=>o2.id)}function updateStreams(){let ids2=watched();for(let[id,abort]of streams)ids2.includes(
id)||(streams.delete(id),abort.abort());for(let id of ids2){if(streams.has(id))continue;let abort=new AbortController;streams.
set(id,abort),follow(`/orders/${id}/events`,{signal:abort.signal,lastID:lastIDs.get(id),onEvent:event=>{event.id&&lastIDs.
set(id,event.id),put(JSON.parse(event.data))},done:()=>final(order(id)??{status:"failed"})}).then(held=>{held&&(heldUntil=
performance.now()+held,updateStreams(),fetchOne(id).catch(()=>{}))}).finally(()=>{streams.get(id)===abort&&streams.delete(
id)})}}async function poll(failures2=0,turn2=0){if(!document.hidden&&session.user()){for(let[id,{submitted}]of busy)submitted&&
await checkPayment(id);let unwatched=list().filter(o2=>(!final(o2)||revivable(o2))&&!streams.has(o2.id)&&(!idle(o2)||awaited(
o2)||turn2%IDLE_POLLS===0));(state==="failed"||unwatched.some(o2=>!awaited(o2)))&&await load();for(let o2 of unwatched)([
"queued","failed"].includes(o2.status)||awaited(o2))&&await fetchOne(o2.id).catch(()=>{})}failures2=problem?failures2+1:
0,setTimeout(poll,POLL+backoff(failures2,500,2e4),failures2,turn2+1)}function start2(){let begin2=user2=>{orders.clear(),
busy.clear(),missing3.clear(),lastIDs.clear(),[state,problem,cursor]=["none",null,null],updateStreams(),changes4.emit(),
user2&&load()};session.on(begin2),session.user()&&begin2(session.user()),document.addEventListener("visibilitychange",()=>{
updateStreams(),document.hidden||load()}),channel2?.addEventListener("message",({data})=>{data.user===session.user()?.id&&
!document.hidden&&load()}),poll()}var timeLeft=o2=>Date.parse(o2.expires_at)-now();var rooms_exports={};__export(rooms_exports,{badge:()=>badge2,begin:()=>begin,done:()=>done,leave:()=>leave2,onChange:()=>onChange3,
place:()=>place,renew:()=>renew2,start:()=>start3});var MAX_STREAMS2=1,POLL2=5e3,RETRY2=1e3,SLOWEST=8e3,STORED2="seckill.place.",places=new Map,changes5=topic(),channel3=channelOf(
"seckill.rooms"),streams2=0,heldUntil2=0,onChange3=changes5.on;function place(id){let state2=places.get(id)?.state??{is:"\
none"};return state2.is==="admitted"&&state2.until<=now()?{is:"asking",offline:state2.offline}:state2}function badge2(){
let all2=[...places.keys()].map(place);if(all2.some(p2=>p2.is==="admitted"))return t("room.badgeTurn");let positions=all2.
filter(p2=>p2.is==="waiting").map(p2=>p2.position);return positions.length>0?t("room.badge",{position:Math.min(...positions)}):
all2.some(p2=>p2.is==="lobby")?t("room.badgeLobby"):""}function begin(id,user2,answer){stop(id);let p2={user:user2,ticket:answer.
ticket,state:{is:"asking"},abort:new AbortController};places.set(id,p2),forAll.set(nameOf(user2,id),p2.ticket),take(id,p2,
answer),keep2(id,p2)}async function leave2(id){let p2=places.get(id);try{await deleteMine(path(id),{as:p2.user,headers:headers(
p2)})}catch(problem2){if(problem2.code!=="entry_required")throw problem2}places.get(id)===p2&&drop2(id,p2,"none")}function done(id){
let p2=places.get(id);p2&&drop2(id,p2,"none")}async function renew2(id){let p2=places.get(id);if(p2){try{take(id,p2,await getMine(
path(id),{as:p2.user,headers:headers(p2)}))}catch(problem2){fail(id,p2,problem2)}return place(id).pass}}var path=id=>`/v\
ouchers/${id}/entry`,nameOf=(user2,id)=>`${STORED2}${user2}.${id}`,headers=p2=>({"X-Entry-Ticket":p2.ticket});function set(id,p2,state2){
places.get(id)===p2&&(p2.state=state2,channel3?.postMessage({user:p2.user,id,state:state2}),changes5.emit(id))}function take(id,p2,a2){
let until=Date.parse(a2.expires_at);a2.state==="admitted"&&until!==p2.state.until&&(clearTimeout(p2.expiry),p2.expiry=setTimeout(
()=>places.get(id)===p2&&!p2.abort.signal.aborted&&renew2(id),until-now())),set(id,p2,{is:a2.state,pass:a2.pass,until,position:a2.
position,ahead:a2.ahead,eta:a2.eta_seconds,paused:a2.paused,message:a2.message})}function fail(id,p2,{code}){code==="ent\
ry_required"?drop2(id,p2,"lost"):["sale_ended","invalid_state","not_found"].includes(code)?drop2(id,p2,"none"):code==="s\
old_out"?set(id,p2,{is:"sold_out"}):code==="sale_not_started"?set(id,p2,{is:"lobby"}):set(id,p2,{...p2.state,offline:!0})}
function drop2(id,p2,is){places.get(id)===p2&&(forAll.set(nameOf(p2.user,id),null),set(id,p2,{is}),p2.abort.abort())}function stop(id){
places.get(id)?.abort.abort(),places.delete(id)}async function keep2(id,p2){let{signal}=p2.abort,lead=()=>new Promise(release=>{
p2.leads=!0,signal.addEventListener("abort",release),watch(id,p2).finally(release)}),alone=()=>poll2(id,p2);return exclusive(
nameOf(p2.user,id),lead,{signal,alone}).catch(err=>{if(!signal.aborted)throw err})}async function watch(id,p2){if(streams2>=
MAX_STREAMS2)return poll2(id,p2);let soldOut2=()=>p2.state.is==="sold_out",held=()=>performance.now()<heldUntil2;for(;!p2.
abort.signal.aborted;)if(soldOut2())await poll2(id,p2,soldOut2);else if(held())await poll2(id,p2,held);else{let pause2=await stream(
id,p2);if(pause2)heldUntil2=performance.now()+pause2;else if(!soldOut2())return}}async function stream(id,p2){streams2++;
let end=new AbortController,stop2=()=>end.abort();p2.abort.signal.addEventListener("abort",stop2);let failed=problem2=>{
fail(id,p2,problem2),p2.state.is==="sold_out"&&stop2()};return follow(`${path(id)}/events`,{signal:end.signal,headers:headers(
p2),most:SLOWEST,onEvent:({event,data})=>event==="end"?failed(JSON.parse(data)):take(id,p2,JSON.parse(data)),onProblem:problem2=>problem2&&
failed(problem2)}).finally(()=>{streams2--,p2.abort.signal.removeEventListener("abort",stop2)})}async function poll2(id,p2,needed=()=>!0){
let{signal}=p2.abort,pause2=p2.state.is==="sold_out"?SLOWEST:0;for(let failures2=0;;){if(await sleep(pause2,signal),signal.
aborted||!needed())return;try{let answer=await getMine(path(id),{as:p2.user,headers:headers(p2),signal});failures2=0,pause2=
answer.poll_after_ms??POLL2,take(id,p2,answer)}catch(problem2){if(!problem2.code)throw problem2;if(signal.aborted)return;
pause2=problem2.code==="sold_out"?SLOWEST:problem2.retryAfter+backoff(failures2++,RETRY2,SLOWEST),fail(id,p2,problem2)}}}
function restore(user2){for(let id of[...places.keys()])stop(id);if(changes5.emit(),!user2)return;let prefix=nameOf(user2.
id,""),names=forAll.names().filter(name=>name.startsWith(prefix));for(let name of names)adopt2(user2.id,name.slice(prefix.
length),{is:"asking"});channel3?.postMessage({user:user2.id,hello:!0})}function adopt2(user2,id,state2){let p2=places.get(
id);if(!p2||p2.abort.signal.aborted){let ticket=forAll.get(nameOf(user2,id));p2={user:user2,ticket,state:state2,abort:new AbortController},
places.set(id,p2),ticket!==null&&keep2(id,p2)}p2.state=state2,["none","lost"].includes(state2.is)&&p2.abort.abort(),changes5.
emit(id)}function start3(){session.on(restore),session.user()&&restore(session.user()),addEventListener("pagehide",()=>restore(
null)),addEventListener("pageshow",event=>event.persisted&&restore(session.user())),channel3?.addEventListener("message",
({data:{user:user2,id,state:state2,hello}})=>{if(user2===session.user()?.id){if(!hello)return adopt2(user2,id,state2);for(let[
id2,p2]of places)p2.leads&&!p2.abort.signal.aborted&&channel3.postMessage({user:user2,id:id2,state:p2.state})}})}var sales_exports={};__export(sales_exports,{all:()=>all,bought:()=>bought,error:()=>error,hasMore:()=>hasMore2,hasPast:()=>hasPast,
loaded:()=>loaded,missing:()=>missing4,more:()=>more2,onChange:()=>onChange4,one:()=>one,readPast:()=>readPast,refresh:()=>refresh,
sale:()=>sale,soldOut:()=>soldOut,start:()=>start4,stateOf:()=>stateOf2,watch:()=>watch2});var PAGE=100,PAGES=5,SOON=15e3,OPEN=3e3,QUIET=500,SLOW=8e3,RETRY3=3e4,LAG=2e3,gone=["invalid_request","unauthenticated",
"forbidden","not_found"],sales=new Map,changes6=topic(),timer2=0,failures=0,pages2=PAGES,cursor2=null,running=null,watching=!1,
only=null,past=null,onChange4=changes6.on,all=()=>[...new Map([...past??[],...sales]).values()],sale=id=>sales.get(id)??
past?.get(id),hasMore2=()=>cursor2!==null,hasPast=()=>past!==null,error=null,loaded=!1,missing4=null;function stateOf2(v2,now2=now()){
return v2.status!=="on"||now2>=Date.parse(v2.end_at)?"ended":now2<Date.parse(v2.begin_at)?"upcoming":v2.stock>0?"on_sale":
"sold_out"}var tags=new Map,quiet=0;async function request2(path2,by=send){let response=await by("GET",path2,{cache:"no-\
cache"}),tag=response.headers.get("ETag");return tags.get(path2)!==tag&&(quiet=0),tags.set(path2,tag),json(response)}async function page(status,after){
let body=await request2(`/vouchers?status=${status}&limit=${PAGE}${after?`&cursor=${after}`:""}`);return{...body,items:body.
items.filter(v2=>v2.type==="seckill")}}async function read(id){quiet++;let found=new Map,began=performance.now();if(id){
let path2=`/vouchers/${encodeURIComponent(id)}`,preview=new URLSearchParams(location.search).has("preview"),v2=preview?{
...await request2(path2,asUser),status:"on",preview}:await request2(path2);if(v2.type!=="seckill")throw new Problem({code:"\
not_found",status:404});found.set(id,v2)}else{let after=null;for(let n2=0;n2===0||n2<pages2&&after!==null;n2++){let{items,
next_cursor}=await page("current",after);for(let v2 of items)found.set(v2.id,v2);after=next_cursor}cursor2=after;let now2=now();
for(let[of,v2]of sales)!found.has(of)&&!v2.preview&&Date.parse(v2.end_at)<=now2&&found.set(of,v2)}!id&&!only&&sales.clear();
for(let[of,v2]of found)sales.set(of,began<known.get(of)?.until?{...v2,stock:Math.min(v2.stock,known.get(of).stock)}:v2)}
async function readPast(){try{past=new Map((await page("ended")).items.map(v2=>[v2.id,v2]))}catch(problem2){error=problem2}
changes6.emit()}var known=new Map;function atMost(id,stock,until){known.set(id,{stock,until}),sales.has(id)&&sales.set(id,
{...sales.get(id),stock}),changes6.emit()}var soldOut=id=>atMost(id,0,performance.now());function bought(id,before2=1/0){
sales.has(id)&&atMost(id,Math.max(Math.min(sales.get(id).stock,before2-1),0),performance.now()+LAG)}function refresh(){return running??=
(async()=>{let id=only;try{await read(id),loaded||=!id,failures=0,error=null}catch(problem2){id&&gone.includes(problem2.
code)?(sales.delete(id),missing4=id):(++failures>1||!(id?sales.has(id):loaded)||!navigator.onLine)&&(error=problem2)}changes6.
emit()})().finally(()=>{running=null,schedule()}),running}function more2(){return pages2+=PAGES,refresh()}var others=new Map;
function one(id){if(sales.has(id))return sales.get(id);let o2=others.get(id)??{voucher:null,next:0};return others.set(id,
o2),!o2.voucher&&performance.now()>=o2.next&&(o2.next=performance.now()+RETRY3,orNull(get(`/vouchers/${id}`)).then(v2=>{
o2.voucher=v2,changes6.emit()})),o2.voucher}function pause(){if(failures>0)return backoff(failures,1e3,15e3);let now2=now(),
near=time=>Math.abs(Date.parse(time)-now2)<SOON,wait2=SLOW;for(let v2 of sales.values())near(v2.begin_at)||near(v2.end_at)?
wait2=OPEN:["on_sale","sold_out"].includes(stateOf2(v2,now2))&&(wait2=Math.min(wait2,OPEN+quiet*QUIET));return wait2*(.7+
.6*Math.random())}function schedule(){clearTimeout(timer2),watching&&!document.hidden&&(timer2=setTimeout(refresh,pause()))}
function watch2(id=null){return[watching,only,missing4]=[!0,id,null],running?running.then(refresh):refresh(),()=>{watching=
!1,clearTimeout(timer2)}}function start4(){document.addEventListener("visibilitychange",()=>{document.hidden?clearTimeout(
timer2):watching&&refresh()}),addEventListener("online",()=>watching&&refresh()),addEventListener("offline",()=>{error={
code:"network"},changes6.emit()})}var FIRST2=600,MOST2=8e3,RETRIES=20,TIMEOUT4=8e3,EXPIRY=18e4,SPREAD2=2e3,EARLY_RETRIES=5,PROOFS=3,retryable=["network","\
rate_limited","overloaded","unavailable","order_in_progress","internal"],purchases=new Map,changes7=topic(),onChange5=changes7.
on,purchase=voucherID=>purchases.get(voucherID)?.state??{is:"idle"};async function press(voucherID){let p2=purchases.get(
voucherID);if(!p2?.running){p2||purchases.set(voucherID,p2={state:{is:"idle"}}),p2.running=!0;try{await run(voucherID,p2)}finally{
p2.running=!1,["buying","waiting"].includes(p2.state.is)&&(p2.state={is:"idle"}),p2.user!==session.user()?.id&&purchases.
delete(voucherID),changes7.emit(voucherID)}}}async function run(voucherID,p2){let setState=state2=>{p2.state=state2,changes7.
emit(voucherID)},pressed=Date.now(),expired2=()=>Date.now()-pressed>EXPIRY,user2=p2.user=await buyer(setState,expired2);
if(!user2)return;expired2()&&(pressed=Date.now());let intent=`seckill.intent.${user2}.${voucherID}`,early=0,before2=forTab.
get(intent)===null?sale(voucherID)?.stock:void 0,room=sale(voucherID)?.entry?.mode==="room",pass,enter=(room?!place(voucherID).
pass:sale(voucherID)?.entry?.mode==="pass")&&forTab.get(intent)===null,renewed=!1,challenge=null,refusals=0;for(let failures2=0;session.
user()?.id===user2;){setState({is:"buying",joining:room&&enter});try{if(enter){let body;(challenge||demanded(sale(voucherID)))&&
(setState({is:"buying",joining:room,proving:!0}),body={solution:await solution(voucherID,challenge)},challenge=null,setState(
{is:"buying",joining:room}));let admission=await postMine(`/vouchers/${voucherID}/entry`,{as:user2,body,timeout:TIMEOUT4});
if(forget(voucherID),room){session.user()?.id===user2&&begin(voucherID,user2,admission);return}({pass}=admission)}enter=
!1,room&&(pass=place(voucherID).pass??pass);let headers2=pass&&{"X-Entry-Pass":pass},answer=await postMine(`/vouchers/${voucherID}\
/orders`,{as:user2,key:keyUnder(intent),headers:headers2,timeout:TIMEOUT4});forTab.set(intent,null),session.user()?.id===
user2&&accepted(voucherID,answer,before2,setState);return}catch(problem2){if(problem2.code==="other_user")return;if(problem2.
code==="unauthenticated"){if(setState({is:"idle"}),!await login({again:!0}))return;pressed=Date.now();continue}if(problem2.
code==="duplicate_order"){if(forTab.set(intent,null),session.user()?.id!==user2)return;done(voucherID),setState({is:"bou\
ght",order:problem2.orderId,already:!0}),fetchOne(problem2.orderId).catch(()=>{});return}if(problem2.code==="entry_requi\
red"&&!renewed&&(renewed=!0,enter=!room,enter||await renew2(voucherID)))continue;if(problem2.code==="challenge_required"&&
problem2.challenge&&++refusals<PROOFS){forget(voucherID),{challenge}=problem2;continue}let repeat=retryable.includes(problem2.
code)&&problem2.retryAfter<EXPIRY;if(repeat||forTab.set(intent,null),problem2.code==="sale_not_started"&&early++<EARLY_RETRIES){
await sleep(150+Math.random()*150);continue}if(!repeat||++failures2>RETRIES){reject(voucherID,problem2,setState,repeat);
return}if(await pauseBeforeRetry(problem2,failures2,setState),renewed=!1,expired2()){reject(voucherID,problem2,setState,
!0);return}}}}async function buyer(setState,expired2){for(let failures2=0;!session.user();){session.pending()&&setState(
{is:"buying"});try{await session.token()}catch(problem2){if(problem2.code==="unauthenticated"){if(setState({is:"idle"}),
!await login())return;continue}if(retryable.includes(problem2.code)&&++failures2<=RETRIES?await pauseBeforeRetry(problem2,
failures2,setState):failures2=1/0,failures2===1/0||expired2()){setState({is:"refused",problem:problem2,since:performance.
now()});return}}}return session.user().id}function keyUnder(name){let key=forTab.get(name)??newKey();return forTab.set(name,
key),key}function reject(voucherID,problem2,setState,open3=!1){problem2.code==="sold_out"&&soldOut(voucherID),setState({
is:"refused",problem:problem2,open:open3,since:performance.now()})}async function pauseBeforeRetry(problem2,failures2,setState){
let pause2=problem2.retryAfter+backoff(failures2-1,FIRST2,MOST2)+(problem2.status===503?Math.random()*SPREAD2:0);setState(
{is:"waiting",why:problem2,at:performance.now()+pause2});let wake=new AbortController,unsubscribe=session.on(()=>wake.abort());
await sleep(pause2,wake.signal),unsubscribe()}function accepted(voucherID,answer,before2,setState){if(bought(voucherID,before2),
answer.status!=="queued"){put(answer),done(voucherID),setState({is:"bought",order:answer.id});return}let now2=new Date().
toISOString();put({id:answer.order_id,voucher_id:voucherID,user_id:session.user()?.id,status:"queued",created_at:now2,expires_at:now2}),
setState({is:"queued",order:answer.order_id})}function start5(){onChange2((orders2=[])=>orders2.forEach(follow2)),session.
on(user2=>{for(let[id,p2]of purchases)p2.running||p2.user===user2?.id||(purchases.delete(id),changes7.emit(id))})}function follow2(order2){
if(order2.status==="queued")return;let p2=purchases.get(order2.voucher_id);p2?.state.order===order2.id&&(order2.status===
"failed"?reject(order2.voucher_id,{code:order2.reason||"internal"},state2=>p2.state=state2):active(order2)?(done(order2.
voucher_id),p2.state={...p2.state,is:"bought"}):p2.state={is:"idle"},changes7.emit(order2.voucher_id))}var KEPT=10;function announce(sentence){if(!sentence)return;let live=document.getElementById("live");live.append(h("p",{},
sentence)),live.childElementCount>KEPT&&live.firstElementChild.remove()}var elsewhere={clear(){},show(){}};function moreButton(name,label,work,out=elsewhere){let element=h("button",{type:"butt\
on",class:"quiet","data-do":name},label);return element.addEventListener("click",singleFlight(element,out,work)),{element,
update(visible,next2){let held=document.activeElement===element;if(show(element,visible),!held||visible)return;let first=next2(),
link2=first?.querySelector("a");first&&!link2&&attr(first,"tabindex",-1),(link2??first)?.focus()}}}var SLOW2=1e4;function queueNote(order2){let ahead=order2?.ahead;if(ahead===void 0)return t("buy.queuedNote");let slow=ahead===
0&&now()-Date.parse(order2.created_at)>SLOW2;return`${t("buy.queuedNote")} ${ahead>0?t("buy.ahead",{count:number(ahead)}):
t(slow?"buy.slow":"buy.next")}`}var t3=[.2,.375,.5555555555555556,.6666666666666666],o=(o2,e)=>r2=>{let n2=4*o2+r2-4,s2="*-04-39?2$%%$%%'$%''%'''%')(%')\
)%(++'(++'(+.'+-.',/3',33)-/5)-43).36)058*18<+37<+4:<,4:E,5<A-7>C/8@F/:EH/<EK0=FM1?IP2@KS3BNV4DPY5FS\\6HV_6IXb7K[e8N^i9Pa\
m;Rdp<Tgt".charCodeAt(n2)-35,f2=n2>8?s2:1,c2=e/f2|0,i2=e%f2,l2=f2-i2,a2=n2>8?c2*t3[r2]+(o2>5)&-2:s2,_2=c2-a2;return{t:l2*
_2+i2*_2+i2,o:[[l2,_2],[i2,_2+1]],i:a2}};var r=t4=>new Uint8Array(t4),n=t4=>{let o2=new Error(`lean-qr error ${t4}`);throw o2.code=t4,o2},s=t4=>"0123456789ABCDEF\
GHIJKLMNOPQRSTUVWXYZ $%*+-./:".indexOf(t4),f=t4=>t4.charCodeAt(0),c=(...t4)=>(o2,e)=>t4.forEach(t5=>t5(o2,e)),i=t4=>o2=>{
o2.eci!==t4&&(o2.push(7,4),t4<128?o2.push(t4,8):t4<16384?o2.push(32768|t4,16):o2.push(12582912|t4,24),o2.eci=t4)},l=t4=>(o2,e)=>{
o2.push(4,4),o2.push(t4.length,8+8*(e>9)),t4.forEach(t5=>o2.push(t5,8))},a=(t4,o2,e,r2,n2=(t5,o3)=>e(t5.length,o3),s2=r2?
o3=>c(i(r2),t4(o3)):t4)=>(s2.test=o2,s2.l=e,s2.est=n2,s2.eci=r2&&[r2],s2),_=a(t4=>(o2,e)=>{o2.push(1,4),o2.push(t4.length,
10+2*(e>26)+2*(e>9));let r2=0;for(;r2<t4.length-2;r2+=3)o2.push(+t4.slice(r2,r2+3),10);r2<t4.length-1?o2.push(+t4.slice(
r2),7):r2<t4.length&&o2.push(+t4[r2],4)},t4=>/[0-9]/.test(t4),(t4,o2)=>14+2*(o2>26)+2*(o2>9)+10*t4/3),u=a(t4=>(o2,e)=>{o2.
push(2,4),o2.push(t4.length,9+2*(e>26)+2*(e>9));let r2=0;for(;r2<t4.length-1;r2+=2)o2.push(45*s(t4[r2])+s(t4[r2+1]),11);
r2<t4.length&&o2.push(s(t4[r2]),6)},t4=>s(t4)>=0,(t4,o2)=>13+2*(o2>26)+2*(o2>9)+5.5*t4),d=a(t4=>l([...t4].map(f)),t4=>f(
t4)<128,(t4,o2)=>12+8*(o2>9)+8*t4);d._=!0,d.u=!0;var p=a(d,t4=>f(t4)<256,d.l,3);p._=!0;var m=new TextEncoder,h2=a(t4=>l(
m.encode(t4)),()=>1,0,26,(t4,o2)=>12+8*(o2>9)+8*m.encode(t4).length);h2._=!0;var w=()=>{let t4=new Map,o2=new TextDecoder(
"sjis"),e=r(2);for(let r2=0;r2<7973;++r2)e[0]=r2/192+129+64*(r2>5951),e[1]=r2%192+64,t4.set(o2.decode(e),r2);return t4.delete(
"�"),w=()=>t4,t4},y=a(t4=>(o2,e)=>{o2.push(8,4),o2.push(t4.length,8+2*(e>26)+2*(e>9));for(let e2 of t4)o2.push(w().get(
e2),13)},t4=>w().has(t4),(t4,o2)=>12+2*(o2>26)+2*(o2>9)+13*t4);y._=!0;var g=[_,u,d,p,y,h2],b={auto:(t4,{modes:o2=g}={})=>(e,r2)=>{
let s2=o2.map((o3,e2)=>{let n2=new Map,s3=(t5,o4)=>(n2.has(t5)||n2.set(t5,o4(t5,r2)),n2.get(t5));return{m:o3,h:1<<e2,C:o3.
est("",r2),S:o3.l?(t5,e3)=>s3(e3-t5,o3.l):(e3,r3)=>s3(t4.slice(e3,r3),o3.est)}}),f2=[{v:0}],c2=0,i2=0,l2=-1;for(let o3 of[
...t4,""]){let t5=0;if(o3)for(let e2 of s2)e2.m.test(o3)&&(t5|=e2.h);if(!o3||t5!==l2){if(l2!==-1){let t6=new Set(f2.map(
t7=>t7.D)),o4=[];for(let{m:e2,C:r3,S:n2,h:a3}of s2)if(l2&a3){let s3=n2(c2,i2);for(let l3 of e2.eci??t6)if(!e2.u||!l3){let t7;
for(let o5 of f2)if(o5.D===l3||e2.eci){let f3=o5.m===e2&&o5.D===l3,a4=f3?o5.V:o5,_2=e2._&&f3?o5.v+s3-r3:a4.v+12*(a4.D!==
l3)+(f3?n2(f3?o5.$:c2,i2):s3);(!t7||_2<t7.v)&&(t7={$:f3?o5.$:c2,V:a4,m:e2,D:l3,A:i2,v:_2})}t7&&o4.push(t7)}}f2=o4}l2=t5,
c2=i2}i2+=o3.length}f2.length||n(5);let a2=[];for(let o3=f2.reduce((t5,o4)=>o4.v<t5.v?o4:t5);o3.m;o3=o3.V)a2.push(o3.m(t4.
slice(o3.$,o3.A)));a2.reverse().forEach(t5=>t5(e,r2))},multi:c,eci:i,bytes:l,numeric:_,alphaNumeric:u,ascii:d,iso8859_1:p,
shift_jis:y,utf8:h2},C=()=>({F:r(2956),I:0,push(t4,o2){for(let e=o2,r2=8-(7&this.I);e>0;e-=r2,r2=8)this.F[this.I>>3]|=t4<<
r2>>e,this.I+=e<r2?e:r2}}),x=(t4,o2=t4*t4,e=r(o2))=>({size:t4,K:e,get:(o3,r2)=>o3>=0&&o3<t4&&!!(1&e[r2*t4+o3]),toString({
on:o3="##",off:e2="  ",lf:r2=`
`,pad:n2=4,padX:s2=n2,padY:f2=n2}={}){let c2="";for(let n3=-f2;n3<t4+f2;++n3){for(let r3=-s2;r3<t4+s2;++r3)c2+=this.get(
r3,n3)?o3:e2;c2+=r2}return c2},toImageData(o3,{on:e2=[0,0,0],off:r2=[0,0,0,0],pad:n2=4,padX:s2=n2,padY:f2=n2}={}){let c2=t4+
2*s2,i2=t4+2*f2,l2=o3.createImageData(c2,i2),a2=new Uint32Array(l2.data.buffer);l2.data.set([...e2,255]);let _2=a2[0];l2.
data.set([...r2,255]);let u2=a2[0];for(let t5=0;t5<i2;++t5)for(let o4=0;o4<c2;++o4)a2[t5*c2+o4]=this.get(o4-s2,t5-f2)?_2:
u2;return l2},toCanvas(t5,o3){let e2=t5.getContext("2d"),r2=this.toImageData(e2,o3);t5.width=r2.width,t5.height=r2.height,
e2.putImageData(r2,0,0)},toDataURL({type:t5="image/png",scale:o3=1,...e2}={}){let r2=document.createElement("canvas"),n2=r2.
getContext("2d"),s2=this.toImageData(n2,e2);return r2.width=s2.width*o3,r2.height=s2.height*o3,n2.putImageData(s2,0,0),n2.
imageSmoothingEnabled=!1,n2.globalCompositeOperation="copy",n2.drawImage(r2,0,0,s2.width,s2.height,0,0,r2.width,r2.height),
r2.toDataURL(t5,1)}}),z=[(t4,o2)=>1&(t4^o2),(t4,o2)=>1&o2,t4=>t4%3,(t4,o2)=>(t4+o2)%3,(t4,o2)=>1&(t4/3^o2>>1),(t4,o2)=>(t4&
o2&1)+t4*o2%3,(t4,o2)=>(t4&o2)+t4*o2%3&1,(t4,o2)=>(t4^o2)+t4*o2%3&1],E=r(511);for(let t4=0,o2=1;t4<255;o2=2*o2^285*(o2>127))
E[E[o2+255]=t4++]=o2;var M=t4=>E[t4%255],S=t4=>E[t4+255],v=(t4,o2)=>{let e=r(t4.length+o2.length-1);for(let r2=0;r2<t4.length;++r2)
for(let n2=0;n2<o2.length;++n2)e[r2+n2]^=M(t4[r2]+o2[n2]);return e.map(S)},D=(t4,o2)=>{let e=r(t4.length+o2.length-1);e.
set(t4,0);for(let r2=0;r2<t4.length;++r2)if(e[r2]){let t5=S(e[r2]);for(let n2=0;n2<o2.length;++n2)e[r2+n2]^=M(o2[n2]+t5)}
return e.slice(t4.length)},L=[[0],[0,0]];for(let t4=1;t4<30;++t4)L.push(v(L[t4],[0,t4]));var V=(t4,o2)=>{let e=[[],[]],n2=0,
s2=0;for(let[r2,f3]of o2.o)for(let c2=0;c2<r2;++c2,n2+=f3){let r3=t4.slice(n2,n2+f3);e[0].push(r3),e[1].push(D(r3,L[o2.i])),
s2+=f3+o2.i}let f2=r(s2);s2=0;for(let t5 of e)for(let o3=0,e2=-1;e2<s2;++o3){e2=s2;for(let e3 of t5)o3<e3.length&&(f2[s2++]=
e3[o3])}return f2},$=(t4,o2,e)=>{let r2=t4<<=e;for(let t5=134217728;t5>>=1;)r2&t5&&(r2^=o2*(t5>>e));return r2|t4},A=({size:t4,
K:o2},e)=>{let r2=(e2,r3,n3,s3)=>{for(;n3-- >0;e2+=t4)o2.fill(s3,e2,e2+r3)},n2=(o3,e2,n3)=>{for(let s3=0;s3++<3;n3-=2)r2(
e2*t4+o3-(n3>>1)*(t4+1),n3,n3,2|s3)},s2=2*((t4-13)/(1+(e/7|0))/2+.75|0);if(e>1)for(let o3=t4-7;o3>8;o3-=s2){for(let t5=o3;t5>
8;t5-=s2)n2(o3,t5,5);o3<t4-7&&n2(o3,6,5)}if(e>6)for(let r3=$(e,7973,12),n3=1;n3<7;++n3)for(let e2=12;e2-- >9;r3>>=1)o2[n3*
t4-e2]=2|1&r3;r2(7,2,9,2),r2(t4-8,8,9,2);for(let e2=0;e2<t4;++e2)o2[6*t4+e2]=3^1&e2;n2(3,3,7),n2(t4-4,3,7);for(let e2=0;e2<
t4;++e2)for(let r3=e2;r3<t4;++r3)o2[r3*t4+e2]=o2[e2*t4+r3];o2[(t4-8)*t4+8]=3},F=({size:t4,K:o2})=>{let e=[];for(let r2=t4-
2,n2=t4,s2=-1;r2>=0;r2-=2){for(r2===5&&(r2=4);n2+=s2,n2!==-1&&n2!==t4;){let s3=n2*t4+r2;o2[s3+1]||e.push(s3+1),o2[s3]||e.
push(s3)}s2*=-1}return e},H=({K:t4},o2,e)=>o2.forEach((o3,r2)=>t4[o3]=e[r2>>3]>>(7&~r2)&1),I=({size:t4,K:o2},e,r2,n2)=>{
for(let r3=0;r3<t4;++r3)for(let n3=0;n3<t4;++n3){let s3=r3*t4+n3;o2[s3]^=!(e(n3,r3)||2&o2[s3])}let s2=21522^$((1^n2)<<3|
r2,1335,10);for(let e2=0;e2++<8;s2>>=1)o2[(e2-(e2<7))*t4+8]=1&s2,o2[9*t4-e2]=1&s2;for(let e2=8;--e2,s2;s2>>=1)o2[8*t4+e2-
(e2<7)]=1&s2,o2[(t4-e2)*t4+8]=1&s2},K=({size:t4,K:o2},e=0,r2=0)=>{for(let n2=0;n2<t4;++n2){for(let s2=0;s2<2;++s2)for(let f2,
c2=0,i2=0,l2=2;c2<t4;++c2){let a2=1&o2[s2?n2*t4+c2:c2*t4+n2];r2+=a2,i2=(i2>>1|2098176)&(3047517^a2-1),2049&i2&&(e+=40),a2^
l2&&(f2=0),l2=a2,e+=++f2===5?3:f2>5}if(n2)for(let r3=t4+n2,s2=5*o2[n2-1]^o2[n2];r3<t4*t4;r3+=t4){let t5=5*o2[r3-1]^o2[r3];
e+=3*!(1&(s2|t5)|4&(s2^t5)),s2=t5}}return e+10*(10*Math.abs(r2/(t4*t4)-1)|0)},N=[],P=(t4=n(1),{minCorrectionLevel:e=0,maxCorrectionLevel:r2=3,
minVersion:s2=1,maxVersion:f2=40,mask:c2,trailer:i2=60433,...l2}={})=>{r2<e&&n(3),f2<s2&&n(2),typeof t4=="string"&&(t4=b.
auto(t4,l2));for(let n2=s2,l3=0;n2<=f2;++n2){let s3=N[n2];s3||(N[n2]=s3=x(4*n2+17),A(s3,n2),s3.p=F(s3));let f3=o(n2,s3.p.
length>>3);if(8*f3(e).t<l3)continue;let a2=C();t4(a2,n2),l3=a2.I;for(let t5=r2;t5>=e;--t5){let o2=f3(t5);if(8*o2.t<l3)continue;
for(a2.I=l3+11&-8;a2.I<8*o2.t;)a2.push(i2,16);let e2=x(s3.size,s3.K);return H(e2,s3.p,V(a2.F,o2)),(z[c2]?[z[c2]]:z).map(
(o3,r3)=>{let n3=x(e2.size,e2.K);return I(n3,o3,c2??r3,t5),n3.s=z[c2]?0:K(n3),n3}).reduce((t6,o3)=>o3.s<t6.s?o3:t6)}}n(4)};
P.with=(...t4)=>(o2,e)=>P(o2,{modes:[...g,...t4],...e});var QUIET2=4;function qr(content,label){let code=P(content),size=code.size+2*QUIET2,path2="";for(let y2=0;y2<code.size;y2++)
for(let x2=0;x2<code.size;x2++)code.get(x2,y2)&&(path2+=`M${x2+QUIET2} ${y2+QUIET2}h1v1h-1z`);return svg("svg",{class:"q\
r",viewBox:`0 0 ${size} ${size}`,role:"img","aria-label":label,"shape-rendering":"crispEdges"},svg("path",{class:"qr-lig\
ht",d:`M0 0h${size}v${size}H0z`}),svg("path",{class:"qr-dark",d:path2}))}var shops_exports={};__export(shops_exports,{addressOf:()=>addressOf,load:()=>load2,mapLink:()=>mapLink,onChange:()=>onChange6,
shop:()=>shop2});var RETRY4=3e4,shops=new Map,next=new Map,changes8=topic(),listed=null,onChange6=changes8.on;function load2(){listed??=get(
"/shops?limit=100").then(({items})=>{for(let s2 of items)shops.set(s2.id,s2)},()=>{}).then(changes8.emit)}function shop2(id){
return!shops.get(id)&&performance.now()>=(next.get(id)??0)&&(next.set(id,performance.now()+RETRY4),(listed??Promise.resolve()).
then(()=>shops.get(id)??get(`/shops/${id}`)).then(s2=>{shops.set(id,s2),changes8.emit()},()=>{})),shops.get(id)??null}var maps={
"zh-CN":"https://uri.amap.com/search?keyword=",en:"https://www.openstreetmap.org/search?query="};function addressOf(s2){
let parts=[s2?.area,s2?.address].filter(Boolean);return languageOf(parts.join(""))==="en"?parts.reverse().join(", "):parts.
join(" ")}function mapLink(address){let lang=languageOf(address);return h("a",{class:"map",href:maps[lang]+encodeURIComponent(
address),target:"_blank",rel:"noreferrer",lang},icon("pin"),address)}function mount(root2,only2){let cards=new Map,heading=h("h1",{tabindex:-1},t(only2?"orders.one":"orders.title")),all2=h(
"a",{href:"/orders",class:"link"},icon("back"),t("orders.all")),list2=h("ul",{class:"orders","data-one":!!only2}),empty=h(
"p",{class:"empty"}),error2=h("p",{class:"banner",role:"status"}),enter=h("button",{type:"button",class:"primary",onclick:()=>login()},
t("login")),shop3=h("a",{href:"/",class:"button primary"},t("orders.shop")),more3=moreButton("more",t("more"),()=>load(!0)),
missing5=!1,unreadable=null,failures2=0,retry=0,stopReading=null;root2.replaceChildren(h("header",{class:"lead"},all2,heading),
error2,list2,empty,h("div",{class:"center"},enter,shop3,more3.element));function find2(){clearTimeout(retry),missing5=!1,
!(!only2||!session.user()||order(only2))&&fetchOne(only2).then(()=>unreadable=null,problem2=>{missing5=["not_found","inv\
alid_request"].includes(problem2.code),unreadable=missing5?null:problem2,unreadable&&list2.isConnected&&(retry=setTimeout(
find2,problem2.retryAfter+backoff(failures2++,1e3,15e3)))}).then(()=>list2.isConnected&&render2())}function render2(){let user2=session.
user(),{state:state2,problem:unread}=loadState(),orders2=user2?only2?[order(only2)].filter(Boolean):list():[],problem2=orders2.
length===0&&unreadable||unread,loading=session.pending()||user2&&state2!=="loaded"&&!problem2,guest=!user2&&!loading;text(
empty,guest?t("orders.guest"):missing5?t("orders.missing"):loading||only2?t("loading"):t("orders.none")),show(empty,orders2.
length===0&&!problem2),text(error2,problem2?`${explain(problem2)} ${t("store.retrying")}`:""),show(error2,user2&&problem2),
show(enter,guest),show(shop3,user2&&!loading&&orders2.length===0&&!problem2&&(!only2||missing5)),show(all2,only2);let known2=new Set(
cards.keys());for(let[id,c2]of cards)orders2.some(o2=>o2.id===id)||(c2.element.remove(),cards.delete(id));!only2&&orders2.
some(o2=>!active(o2)||o2.title===void 0)&&(stopReading??=watch2());let at=list2.firstChild;for(let o2 of orders2){let c2=cards.
get(o2.id);c2?c2.element===at&&(at=at.nextSibling):(c2=card(o2.id,!!only2),cards.set(o2.id,c2),list2.insertBefore(c2.element,
at)),c2.update()}more3.update(user2&&!only2&&hasMore(),()=>[...list2.children].find(li=>!known2.has(li.dataset.order)))}
let ends=[onChange2(render2),onChange4(render2),onChange6(render2),session.on(()=>{find2(),render2()})],timer3=setInterval(
()=>{for(let c2 of cards.values())c2.update()},1e3);return session.user()&&load(),pin(only2??""),find2(),render2(),()=>{
clearInterval(timer3),clearTimeout(retry),pin(""),stopReading?.();for(let end of ends)end()}}var boughtOf=(o2,v2)=>o2.title===
void 0?v2??{}:o2;function card(id,open3){let alone=open3,titleID=newID("order"),name=h("a",alone?{}:{href:`/orders/${id}`}),
title2=h("h2",{id:titleID},name),of=h("p",{class:"sub"}),rules=h("p",{class:"note terms"}),at=h("span",{}),chip=h("span",
{class:"chip"}),amount=h("strong",{class:"amount"}),facts=h("p",{class:"facts"},at,alone?` · ${t("orders.number",{id})}`:
""),deadline=h("span",{}),due=h("p",{class:"due"},icon("clock"),deadline),error2=h("p",{class:"error",role:"alert"}),ref=h(
"p",{class:"reference"}),button=(name2,kind,press2)=>{let b2=h("button",{type:"button",class:kind,"data-do":name2,"aria-\
describedby":titleID,onclick:()=>b2.getAttribute("aria-disabled")||press2()});return b2},pay=button("pay","primary",payNow),
again=h("a",{class:"button primary","data-do":"again"},t("orders.again")),cancel=button("cancel","quiet",()=>confirmAndAct(
"cancel")),refund=button("refund","quiet",()=>confirmAndAct("refund")),codeID=newID("code"),toggle=h("button",{type:"but\
ton","data-do":"code","aria-expanded":String(open3),"aria-controls":codeID,onclick:()=>{open3=!open3,update()}}),picture=h(
"div",{class:"picture"}),code=h("code",{translate:"no"}),validity=h("p",{class:"note"}),pass=h("div",{class:"pass",id:codeID},
picture,h("div",{},h("p",{class:"label"},t("orders.code")),code,h("p",{class:"note"},t("orders.show")),validity)),element=h(
"li",{class:"order","data-order":id,"aria-labelledby":titleID},h("div",{class:"head"},title2,chip),of,h("div",{class:"ro\
w"},facts,amount),due,pass,rules,error2,ref,h("div",{class:"actions"},refund,cancel,toggle,pay,again)),was=null,place2="";
async function confirmAndAct(action2){await confirm(t(`confirm.${action2}`),t(`do.${action2}`))&&act(id,action2)}async function payNow(){
let o2=order(id),amount2=money(o2.amount,o2.currency),facts2=[h("p",{lang:name.lang},name.textContent),h("p",{class:"row"},
t("pay.total"),h("strong",{class:"amount"},amount2)),h("p",{},t("sandbox"in document.documentElement.dataset?"pay.sandbo\
x":"pay.provider"))];await confirm(t("pay.title"),t("pay.now",{amount:amount2}),facts2)&&act(id,"pay")}function update(){
let o2=order(id);if(!o2)return;let v2=alone?one(o2.voucher_id):sale(o2.voucher_id),{action:action2,problem:problem2}=doing(
id),working=!!action2&&!problem2,unpaid=o2.status==="pending_payment",{title:bought3}=boughtOf(o2,v2);text(name,bought3||
t("orders.voucher",{id:o2.voucher_id})),alone&&attr(name,"href",v2?`/sales/${o2.voucher_id}`:null),attr(name,"lang",bought3&&
languageOf(bought3)),showBought(o2,v2);let late=unpaid&&timeLeft(o2)<=0;attr(element,"data-status",o2.status);let status=working&&
action2==="pay"&&unpaid?t("status.paying"):t(`status.${o2.status}`);text(chip,status),text(at,stamp(o2.created_at)),text(
amount,o2.amount===void 0?"":money(o2.amount,o2.currency)),showDue(o2,unpaid,working);for(let[b2,name2,shown3]of[[pay,"p\
ay",unpaid],[cancel,"cancel",unpaid],[refund,"refund",o2.status==="paid"]])show(b2,shown3),text(b2,working&&action2===name2?
t("working"):t(`do.${name2}`)),attr(b2,"aria-disabled",working||late&&name2!=="refund"?"true":null);attr(again,"href",`/\
sales/${o2.voucher_id}`),show(again,!active(o2)&&v2&&["on_sale","upcoming","sold_out"].includes(stateOf2(v2))),showCode(
o2),text(error2,problem2?explain(problem2):""),show(error2,problem2),text(ref,problem2?reference(problem2):""),show(ref,
problem2?.requestId),was!==null&&was!==status&&announce(`${title2.textContent}: ${status}`),was=status}function showDue(o2,unpaid,working){
let rest=timeLeft(o2),words={queued:()=>queueNote(o2),pending_payment:()=>working?t("orders.paying"):rest>0?t("orders.du\
e",{left:left(rest,!0)}):t("orders.late"),cancelled:()=>o2.cancelled_at&&(expired(o2)?t("orders.expired",{at:stamp(o2.expires_at)}):
t("orders.cancelled",{at:stamp(o2.cancelled_at)})),failed:()=>explain({code:o2.reason||"internal"}),refunding:()=>t("ord\
ers.refunding"),redeemed:()=>o2.redeemed_at&&t("orders.redeemed",{at:stamp(o2.redeemed_at)}),refunded:()=>o2.refunded_at&&
t("orders.refunded",{at:stamp(o2.refunded_at)})}[o2.status];text(deadline,words&&words()||""),show(due,deadline.textContent)}
function showBought(o2,v2){let{rules:terms,shop_id:shopID,shop_name:shopName}=boughtOf(o2,v2),s2=shopID&&(alone||!shopName)?
shop2(shopID):null,name2=shopName||s2?.name,address=alone?addressOf(s2):"",where=[name2,address,alone&&s2?.open_hours].filter(
Boolean);place2!==where.join(" · ")&&(place2=where.join(" · "),of.replaceChildren(...where.flatMap(part=>[" · ",h("bd\
i",{},part===address?mapLink(part):part)]).slice(1))),attr(of,"lang",languageOf(where.join(""))),show(of,where.length>0),
text(rules,alone&&terms||""),attr(rules,"lang",languageOf(rules.textContent)),show(rules,rules.textContent)}function showCode(o2){
let has2=o2.status==="paid"&&o2.redeem_code;show(toggle,has2),show(pass,has2&&open3),text(toggle,t(open3?"orders.hideCod\
e":"orders.showCode")),attr(toggle,"aria-expanded",String(open3)),attr(toggle,"class",open3?"quiet":"primary"),text(validity,
[["validFrom",o2.valid_from],["validUntil",o2.valid_until]].filter(([,time])=>time).map(([name2,time])=>`${t(`sale.${name2}`)}\
 ${stamp(time)}`).join(" · ")),show(validity,validity.textContent),has2?(code.textContent!==o2.redeem_code||!picture.firstChild)&&
(text(code,o2.redeem_code),picture.replaceChildren(qr(o2.redeem_code,t("orders.qr",{code:o2.redeem_code})))):picture.replaceChildren()}
return{element,update}}var SPOKEN=3e4,FAR=24*36e5,spoken=new Map,furthest=new Map;function announced(id,position){let last=spoken.get(id);return position>
1&&last?.position>=position&&performance.now()-last.at<SPOKEN?last.position:(spoken.set(id,{position,at:performance.now()}),
position)}function turn(v2,state2,alone){if(v2.entry?.mode!=="room"||state2==="ended")return;let p2=place(v2.id),shown3=places2[p2.
is](v2,state2,p2,alone);return shown3&&p2.offline&&(shown3.note=t("room.offline")),shown3}function message(v2,state2){if(v2.
entry?.mode!=="room"||state2==="ended")return"";let p2=place(v2.id);return(["lobby","waiting","admitted"].includes(p2.is)?
p2.message:v2.entry.message)??""}var waits=(head,note,say)=>({label:t("buy.waiting"),disabled:!0,kind:"waiting",head,note,
say,leave:!0}),reserved=p2=>!p2.paused&&p2.eta===void 0;function wait(p2){if(p2.paused)return t("room.paused");if(reserved(
p2))return t("room.reserved");let minutes=Math.round(p2.eta/60);return minutes<1?t("room.soon"):t("room.minutes",{minutes:number(
minutes)})}var places2={none(v2,state2,p2,alone){let until=Date.parse(v2.entry.opens_at)-now();if(state2==="upcoming"&&until>
0)return{disabled:!0,note:until>FAR?t("room.opensAt",{at:stamp(v2.entry.opens_at)}):t("room.opensIn",{left:left(until)}),
say:t("state.upcoming")};if(state2!=="sold_out")return{label:t(alone?"room.join":"room.joinShort"),note:t(state2==="upco\
ming"?"room.early":"room.late"),idle:!0,say:t("room.open")}},asking:()=>({label:t("working"),disabled:!0,busy:!0,note:"",
say:""}),lobby:(v2,state2,p2)=>waits(t("room.lobby"),t(p2.paused?"room.paused":"room.drawn"),t(p2.paused?"room.paused":"\
room.lobby")),waiting(v2,state2,p2){let ahead=p2.ahead>0?t("room.ahead",{count:number(p2.ahead)}):t("room.next"),from=Math.
max(furthest.get(v2.id)??0,p2.position);return furthest.set(v2.id,from),{...waits(t("room.position"),`${ahead} ${wait(p2)}`,
p2.paused?t("room.paused"):t("room.positionIs",{position:number(announced(v2.id,p2.position))})),figure:number(p2.position),
part:[from-p2.position+1,from+1],reserved:reserved(p2)}},admitted:(v2,state2,p2)=>({label:t("buy.now"),kind:"turn",head:t(
"room.yours"),note:t("room.turn",{left:left(p2.until-now(),!0)}),until:{at:p2.until,label:t("time.buyWithin")},say:t("ro\
om.yours"),leave:!0,mine:!0}),sold_out:()=>waits(t("button.sold_out"),t("room.soldOut"),t("room.soldOut")),lost:(v2,state2)=>state2===
"sold_out"?void 0:{label:t("room.again"),kind:"lost",head:t("room.lost"),note:t("room.lostNote"),say:`${t("room.lost")} ${t(
"room.lostNote")}`}};var REFUSAL_SHOWN=8e3,DAY2=864e5;function action(v2,state2,alone){let label=state2==="on_sale"?t("buy.now"):closed(v2,state2,
alone);if(v2.preview)return{label,disabled:!0,note:t("sale.preview"),say:""};let p2=purchase(v2.id),held=holding(v2.id),
order2=held[0]??(p2.order&&order(p2.order));switch(p2.is){case"buying":return p2.joining?{label:t("working"),disabled:!0,
busy:!0,note:p2.proving?t("proof.working"):"",say:""}:{label:t("buy.buying"),disabled:!0,busy:!0,note:t(p2.proving?"proo\
f.working":"buy.holdOn"),say:t("buy.buying")};case"waiting":{let why=t(`waiting.${p2.why.code}`),seconds=Math.max(1,Math.
ceil((p2.at-performance.now())/1e3));return{label:t("buy.waiting"),disabled:!0,busy:!0,kind:"waiting",head:why,note:t("b\
uy.retryIn",{seconds}),say:why}}case"queued":return{label:t("buy.waiting"),disabled:!0,busy:!0,kind:"waiting",head:t("bu\
y.queued"),note:queueNote(order2),say:t("buy.queued")}}let most=v2.limit_per_user??1,limit=most>1?t(held.length>0?"buy.h\
eld":"buy.limit",{held:number(held.length),n:number(most)}):"",due=held.filter(o2=>o2.status==="pending_payment"),unpaid=due.
at(-1)??(p2.is==="bought"&&!order2?{}:void 0),rejoins=v2.entry.mode==="room"&&held.length<most&&!unpaid;if((held.length>
0||p2.is==="bought")&&!rejoins)return bought2(v2,state2,alone,{p:p2,held,order:order2,due,unpaid,most,limit});let place2=turn(
v2,state2,alone),inRoom=place2&&{label,...place2},byState=!p2.open&&["sold_out","sale_not_started","sale_ended"].includes(
p2.problem?.code),lost=byState&&p2.problem.code==="sold_out"&&state2==="sold_out";if(p2.is==="refused"&&(!byState||lost||
performance.now()-p2.since<REFUSAL_SHOWN)){let note=explain(p2.problem)+(p2.open?` ${t("buy.unknown")}`:""),refusal={kind:"\
warn",head:"",note,reference:reference(p2.problem),say:note};if(inRoom&&!p2.open)return inRoom.disabled||inRoom.label===
t("room.again")?inRoom:{...inRoom,...refusal};if(state2==="on_sale")return{label:t("buy.retry"),...refusal};if(lost)return{
label,disabled:!0,kind:"lost",head:t("buy.lost"),note:t("note.sold_out"),say:t("buy.lost")};if(byState)return{label,disabled:!0,
kind:"warn",note,say:note}}let guest=alone&&state2==="upcoming"&&!session.user()&&!session.pending();if(inRoom?.disabled&&
guest)return{...inRoom,label:t("ready.login"),disabled:!1,ready:!0};if(inRoom)return inRoom;let proof=stateOf(v2.id),check=proof?
t(`proof.${proof}`):"",say=`${t(`state.${state2}`)} ${check}`;if(state2==="on_sale")return{label,note:check,idle:!0,limit,
say};if(guest)return{label:t("ready.login"),ready:!0,note:t("ready.why",{at:hour(v2.begin_at,now())}),limit,say};let missed=alone&&
state2==="sold_out"&&{kind:"lost",head:t("state.sold_out")};return{label,disabled:!0,...missed,note:`${t(`note.${state2}`)}\
 ${check}`.trim(),idle:!0,limit,say}}function closed(v2,state2,alone){let now2=now();return state2==="upcoming"&&!alone&&
Date.parse(v2.begin_at)-now2>DAY2?t("state.upcoming"):t(`button.${state2}`,{at:hour(v2.begin_at,now2)})}function bought2(v2,state2,alone,{
p:p2,held,order:order2,due,unpaid,most,limit}){let several=due.length>1,fresh=p2.is==="bought"&&!p2.already,refused=p2.is===
"refused"&&performance.now()-p2.since<REFUSAL_SHOWN,until=unpaid?.id?{at:Date.parse(unpaid.expires_at),label:t("time.pay\
Within")}:void 0,note=t(fresh?"buy.paid":"buy.already");return unpaid&&(note=until?t("buy.payWithin",{left:left(timeLeft(
unpaid),!0)}):t("buy.payInTime")),several&&(note=`${t("buy.unpaid",{n:number(due.length)})} ${note}`),refused&&(note=explain(
p2.problem)),{label:t(several?"orders.title":unpaid?alone?"buy.pay":"buy.payShort":"buy.see"),calm:!unpaid,href:several?
"/orders":`/orders/${unpaid?.id??order2?.id??p2.order}`,kind:refused?"warn":"won",head:unpaid&&!refused?t("buy.won"):"",
note,until,limit,another:held.length>0&&held.length<most&&state2==="on_sale"&&v2.entry.mode!=="room"?t("buy.another"):void 0,
say:unpaid&&!refused?`${t("buy.won")} ${t("buy.payInTime")}`:note}}var EARLY2=6e4,ALARM="-PT5M",LENGTH=15*6e4,LONGEST=2**31-1,LINE=75,timers=new Map;function reminders(id){let status=h("p",
{class:"note",role:"status"}),button=(name,sign,press2)=>h("button",{type:"button",class:"quiet","data-do":name,onclick:press2},
icon(sign),t(`remind.${name}`)),notify=button("notify","bell",async()=>text(status,await schedule2(sale(id)))),element=h(
"div",{class:"remind"},button("calendar","calendar",()=>toCalendar(sale(id))),notify,status);return{element,update(v2,state2){
show(element,state2==="upcoming"&&!v2.preview),show(notify,"Notification"in globalThis&&Notification.permission!=="denie\
d")}}}var untilAlarm=v2=>Date.parse(v2.begin_at)-EARLY2-now();async function schedule2(v2){try{if(await Notification.requestPermission()!==
"granted")return t("remind.blocked");notification(v2)}catch{return t("remind.blocked")}return clearTimeout(timers.get(v2.
id)),untilAlarm(v2)>0&&plan(v2),t("remind.set")}var plan=v2=>timers.set(v2.id,setTimeout(remind,Math.min(untilAlarm(v2),
LONGEST),v2));async function remind(known2){let v2=known2;try{v2=await get(`/vouchers/${known2.id}`)}catch(problem2){if(problem2.
code==="not_found")return}untilAlarm(v2)>0?plan(v2):notification(v2)}function notification(v2){let shown3=new Notification(
v2.title,{body:t("button.upcoming",{at:hour(v2.begin_at,now())}),tag:`seckill-${v2.id}`});shown3.onclick=()=>globalThis.
focus()}function toCalendar(v2){save(new Blob([calendar(v2,shop2(v2.shop_id))],{type:"text/calendar"}),`${v2.id}.ics`)}var utc=time=>new Date(
time).toISOString().replace(/[-:]|\.\d+/g,""),escaped=words=>words.replace(/[\\;,]/g,"\\$&").replace(/\r?\n/g,"\\n");function calendar(v2,at){
let begin2=Date.parse(v2.begin_at),link2=new URL(`/sales/${v2.id}`,location.href).href;return["BEGIN:VCALENDAR","VERSION\
:2.0","PRODID:-//seckill//EN","BEGIN:VEVENT",`UID:sale-${v2.id}@${location.hostname}`,`DTSTAMP:${utc(now())}`,`DTSTART:${utc(
begin2)}`,`DTEND:${utc(Math.min(begin2+LENGTH,Date.parse(v2.end_at)))}`,`SUMMARY:${escaped(v2.title)}`,`DESCRIPTION:${escaped(
link2)}`,`URL:${link2}`,...at?[`LOCATION:${escaped([at.name,at.address].filter(Boolean).join(", "))}`]:[],"BEGIN:VALARM",
"ACTION:DISPLAY",`TRIGGER:${ALARM}`,`DESCRIPTION:${escaped(v2.title)}`,"END:VALARM","END:VEVENT","END:VCALENDAR",""].map(
folded).join(`\r
`)}function folded(line){let all2="",size=0;for(let c2 of line){let bytes=new TextEncoder().encode(c2).length;size+bytes>
LINE&&(all2+=`\r
 `,size=1),all2+=c2,size+=bytes}return all2}var HOUR=36e5,TINTS=4,signs={won:"check",waiting:"clock",turn:"bell",lost:"cross",warn:"alert"};function keepTime(update){
let timer3=0;function tick(idle2){clearTimeout(timer3);let now2=now();update(now2,idle2);let next2=1e3-now2%1e3;for(let v2 of all())
for(let time of[v2.begin_at,v2.end_at,v2.entry.opens_at].map(Date.parse))time>now2&&(next2=Math.min(next2,time-now2));timer3=
setTimeout(tick,next2+1,!0)}let ends=[sales_exports,shops_exports,buy_exports,human_exports,mine_exports,rooms_exports].
map(changed=>changed.onChange(()=>tick(!1)));return ends.push(session.on(()=>tick(!1))),tick(!1),()=>{clearTimeout(timer3);
for(let end of ends)end()}}var onScreen=new WeakSet,observer=new IntersectionObserver(entries=>{for(let e of entries)onScreen[e.
isIntersecting?"add":"delete"](e.target)},{rootMargin:"100%"});function card2(id,alone=!1){let titleID=newID("sale"),noteID=newID(
"note"),chip=h("span",{class:"chip"}),name=alone?h("span",{}):h("a",{href:`/sales/${id}`}),title2=h("h2",{id:titleID,class:alone&&
"sr"},name),image=h("img",{alt:"",class:"image",loading:"lazy",hidden:!0,onerror:()=>showImage(!1)}),cover=h("div",{class:"\
cover","data-empty":!0},h("span",{"aria-hidden":"true"}),image,chip),of=h("span",{}),sub=h("span",{}),price=h("strong",{}),
worth=h("s",{}),insteadOf=h("span",{class:"sr"},t("store.insteadOf")),off=h("span",{class:"off"}),stockBar=h("progress",
{"aria-label":t("store.stock")}),stockText=h("span",{}),stock=h("div",{class:"stock"},stockBar,stockText),timeLabel=h("s\
pan",{class:"label"}),time=h("span",{class:"time",role:"timer","aria-live":"off"}),times=h("div",{class:"clock"},timeLabel,
" ",time),label=h("span",{id:newID("buy")}),button=h("button",{type:"button",class:"primary buy","aria-describedby":noteID,
"aria-labelledby":`${label.id} ${titleID}`,onclick:onPress},label),link2=h("a",{"aria-describedby":noteID}),sign=h("span",
{class:"sign"}),headline=h("strong",{}),figure=h("span",{class:"figure"}),part=h("progress",{"aria-hidden":"true"}),note=h(
"p",{id:noteID,class:"note"}),result=h("div",{class:"result"},sign,h("div",{},headline,figure,part,note)),another=h("but\
ton",{type:"button",class:"link","data-do":"another","aria-describedby":titleID,onclick:()=>press(id)}),limit=h("p",{class:"\
limit"}),ref=h("p",{class:"reference"}),word=h("p",{class:"banner","data-message":!0}),error2=h("p",{class:"error",role:"\
alert"}),leave3=h("button",{type:"button",class:"link","data-do":"leave","aria-describedby":titleID},t("room.leave"));leave3.
addEventListener("click",singleFlight(leave3,errorIn(error2),async()=>{await confirm(t("room.sure"),t("room.leave"))&&(await leave2(
id),button.focus())}));let remind2=alone?reminders(id):null,act2=h("div",{class:"act"},word,result,another,limit,ref,leave3,
error2,remind2?.element),element=h(alone?"article":"li",{class:"sale","data-voucher":id,"aria-labelledby":titleID},cover,
h("div",{class:"what"},title2,h("p",{class:"sub"},of," ",sub)),h("div",{class:"meter"},stock,alone?null:times),h("div",{
class:"bar"},h("div",{class:"price"},price," ",insteadOf,worth," ",off),alone?times:null,button,link2),act2);observer.observe(
element);let shown3={},counted=null,reserved2=!1,timed=null,was=null,said=null,turned=null;function onPress(){button.getAttribute(
"aria-disabled")!=="true"&&(button.dataset.do==="ready"?login():press(id))}function update(now2,idle2){let v2=sale(id);if(!v2)
return;let state2=stateOf2(v2,now2);if(idle2&&state2===element.dataset.state&&!onScreen.has(element))return;let at=shop2(
v2.shop_id)?.name??"";(v2!==shown3.v||at!==shown3.at)&&showFacts(v2,at);let a2=action(v2,state2,alone);(v2!==counted||state2!==
element.dataset.state||!!a2.reserved!==reserved2)&&showStock(v2,state2,a2),counted=v2,reserved2=!!a2.reserved,attr(element,
"data-state",state2),text(chip,t(`state.${state2}`)),showTime(v2,state2,now2,a2.until),showAction(a2),showResult(a2),alone&&
!a2.href&&!a2.busy&&!v2.preview&&prepare(v2,state2,now2),remind2?.update(v2,state2),was!==null&&was!==a2.say&&announce(a2.
say&&`${v2.title}: ${a2.say}`),was=a2.say;let from=message(v2,state2);text(word,from),show(word,from),said!==null&&said!==
from&&announce(from&&`${v2.title}: ${from}`),said=from,show(leave3,a2.leave),a2.leave||text(error2,"");let active2=document.
activeElement;a2.mine&&turned===!1&&(!active2||active2===document.body||element.contains(active2))&&button.focus(),turned=
!!a2.mine}function showFacts(v2,at){v2.image_url!==shown3.v?.image_url&&(attr(image,"src",v2.image_url),showImage(!!v2.image_url)),
shown3={v:v2,at};for(let[el,words]of[[name,v2.title],[sub,v2.sub_title],[of,at]])text(el,words),attr(el,"lang",languageOf(
words)),show(el,words);let[initial="·"]=at||v2.title;text(cover.firstChild,initial),attr(cover,"data-tint",initial.codePointAt(
0)%TINTS),text(price,money(v2.pay_value,v2.currency));let saves=v2.actual_value>v2.pay_value;text(worth,money(v2.actual_value,
v2.currency)),show(worth,saves),show(insteadOf,saves),text(off,discount(v2.pay_value,v2.actual_value)),show(off,off.textContent)}
function showImage(visible){show(image,visible),attr(cover,"data-empty",!visible)}function showStock(v2,state2,a2){let units=Math.
max(v2.initial_stock+(v2.added_stock??0),v2.stock,1),claimed=units-v2.stock,share=Math.min(Math.max(claimed/units,claimed>
0?.01:0),v2.stock>0?.99:1);show(stock,state2!=="ended"),show(stockBar,state2!=="upcoming"),attr(stockBar,"max",units),attr(
stockBar,"value",claimed);let words={claimed:percent(share),left:number(v2.stock),n:number(v2.stock)},name2=a2.reserved?
"reserved":alone?"claimedLeft":"claimed";text(stockText,t(`store.${state2==="upcoming"?"units":name2}`,words))}function showTime(v2,state2,now2,other){
let until=other?.at??Date.parse(state2==="upcoming"?v2.begin_at:v2.end_at),far=until-now2>48*HOUR?"At":"",kind=other?.label??
state2;if(timed===kind&&!onScreen.has(element))return;timed=kind;let over=state2==="ended"&&!other;text(timeLabel,other?.
label??t(over?"time.ended":`time.${state2==="upcoming"?"begins":"ends"}${far}`)),over?text(time,until<=now2?hour(until,now2):
""):text(time,far?hour(until,now2):left(until-now2,!!other))}function showAction(a2){let focused=document.activeElement===
button||document.activeElement===link2;text(label,a2.label),attr(button,"aria-disabled",a2.disabled?"true":null),attr(button,
"data-busy",a2.busy),attr(button,"data-do",a2.ready&&"ready"),text(another,a2.another??""),show(another,a2.another),text(
limit,a2.limit??""),show(limit,a2.limit),show(button,!a2.href),show(link2,a2.href),a2.href&&(attr(link2,"href",a2.href),
attr(link2,"class",`button ${a2.calm?"quiet":"primary"} buy`),text(link2,a2.label)),focused&&a2.href&&document.activeElement!==
link2&&link2.focus(),focused&&!a2.href&&document.activeElement!==button&&button.focus(),text(ref,a2.reference??""),show(
ref,a2.reference)}function showResult(a2){(result.dataset.kind!==a2.kind||!sign.firstChild)&&sign.replaceChildren(...a2.
kind?[icon(signs[a2.kind])]:[]),attr(result,"data-kind",a2.kind),attr(act2,"data-result",!!a2.kind);for(let[el,words]of[
[headline,a2.head],[figure,a2.figure],[note,a2.idle&&!alone?"":a2.note]])text(el,words??""),show(el,words);attr(part,"va\
lue",a2.part?.[0]),attr(part,"max",a2.part?.[1]),show(part,a2.part),show(result,a2.kind||note.textContent)}return{element,
update}}var shown2="",title=()=>sale(shown2)?.title??t(missing4===shown2?"missing.title":"loading");function mount2(root2,id){shown2=
id;let heading=h("h1",{tabindex:-1}),banner=h("p",{class:"banner toast",role:"status"}),waiting=h("p",{class:"sr",role:"\
status"},t("loading")),body=h("div",{class:"one"}),bones=h("div",{class:"one bones","aria-hidden":"true"},h("div",{class:"\
bone"})),c2=card2(id,!0),gone2=!1,facts=h("dl",{class:"facts-list"}),rules=h("p",{class:"terms"}),rulesTitle=h("h2",{},t(
"sale.terms")),shared=h("p",{class:"note",role:"status"}),share=h("button",{type:"button",class:"quiet","data-do":"share",
onclick:onShare},icon("share"),t("sale.share")),stepsID=newID("steps"),steps=h("div",{class:"steps"},h("h2",{id:stepsID},
t("sale.after")),h("ol",{"aria-labelledby":stepsID},...["pay","code","shop"].map(step=>h("li",{},t(`sale.after.${step}`)))));
body.append(c2.element,h("section",{class:"details"},facts,rulesTitle,rules,steps,h("div",{class:"share"},share,shared)));
let all2=h("a",{href:"/",class:"link"},icon("back"),t("store.all"));root2.replaceChildren(h("header",{class:"lead"},all2,
heading),banner,waiting,body,bones);async function onShare(){let link2=new URL(`/sales/${id}`,location.href).href;try{navigator.
share?await navigator.share({title:title(),url:link2}):(await navigator.clipboard.writeText(link2),text(shared,t("sale.c\
opied")))}catch{text(shared,link2)}}function giveUp(){gone2||(gone2=!0,stopReading(),attr(root2,"data-bar",null),missing2(
"/","store.all")(root2),showTitle())}function update(now2,idle2){if(missing4===id)return giveUp();let v2=sale(id);text(banner,
error?t(error.code==="network"?"store.offline":"store.unavailable"):""),show(banner,error);let loading=!v2&&!error;show(
waiting,loading),show(bones,loading),show(body,v2),text(heading,title()),v2&&(heading.lang=languageOf(v2.title),showTitle(),
c2.update(now2,idle2),text(rules,v2.rules),rules.lang=languageOf(v2.rules),show(rules,v2.rules),show(rulesTitle,v2.rules),
show(steps,stateOf2(v2,now2)!=="ended"),showFacts(v2))}let address="";function showFacts(v2){let of=shop2(v2.shop_id),all3=[
["shop",of?.name],["address",addressOf(of)],["hours",of?.open_hours],["begins",stamp(v2.begin_at)],["ends",stamp(v2.end_at)],
["zone",zone(new Date(v2.begin_at))],["validFrom",v2.valid_from&&stamp(v2.valid_from)],["validUntil",v2.valid_until&&stamp(
v2.valid_until)],["limit",t("sale.limitOf",{n:v2.limit_per_user})],["payWithin",v2.pay_timeout?duration(v2.pay_timeout):
""]].filter(([,value])=>value),names=all3.map(([name])=>name).join(" ");facts.dataset.names!==names&&(facts.dataset.names=
names,facts.replaceChildren(...all3.map(([name])=>h("div",{},h("dt",{},t(`sale.${name}`)),h("dd",{}))))),all3.forEach(([
name,value],i2)=>{let dd=facts.children[i2].lastChild;name!=="address"?text(dd,value):(address!==value||!dd.firstChild)&&
dd.replaceChildren(mapLink(address=value))})}attr(root2,"data-bar",!0);let stopReading=watch2(id),stopTime=keepTime(update);
return()=>{attr(root2,"data-bar",null),stopReading(),stopTime()}}function digit(text2){let code=text2.codePointAt(0),zero=code;for(;code-zero<9&&/\p{Nd}/u.test(String.fromCodePoint(zero-
1));)zero--;return code-zero}var folded2=text2=>text2.normalize("NFKC").replace(/\u1e9e/g,"ss").toUpperCase().toLowerCase().
replace(/ς/g,"σ").replace(/i\u0307/g,"i").replace(/\p{Default_Ignorable_Code_Point}|\p{Cf}/gu,"").normalize("NFKC").replace(
/(?![0-9])\p{Nd}/gu,digit).replace(/[‘’ʼ]/g,"'").replace(/[“”„]/g,'"').replace(/⁄/g,"/").replace(/[‐‒–—―−]/g,
"-"),STROKES={ø:"o",ł:"l",đ:"d",ħ:"h",ŧ:"t",æ:"ae",œ:"oe"},withoutAccents=text2=>text2.normalize("NFD").replace(/(?=[\p{Mn}\u0640])[\u0300-\u036f\u0591-\u05c7\u0640\u064b-\u0655\u0670]/gu,
"").normalize("NFC").replace(/[øłđħŧæœ]/g,letter=>STROKES[letter]);function finder(search){let words=folded2(search).
split(/\s+/).filter(Boolean);return text2=>{let full2=folded2(text2),plain=withoutAccents(full2);return words.every(word=>full2.
includes(word)||plain.includes(word))}}var DAY3=24*36e5,NOW="now";function mount3(root2){let cards=new Map,grid=h("ul",{class:"grid"}),bones=h("div",{class:"gr\
id bones","aria-hidden":"true"},...Array.from({length:6},()=>h("div",{class:"bone"}))),empty=h("p",{class:"empty",role:"\
status"}),banner=h("p",{class:"banner toast",role:"status"}),more3=moreButton("more",t("more"),more2),past2=moreButton("\
past",t("store.past"),readPast),slots=h("div",{class:"slots",role:"group","aria-label":t("store.slots")}),searchID=newID(
"search"),search=h("input",{id:searchID,type:"search",name:"q",placeholder:t("store.searchFor"),oninput:onSearch});search.
value=new URLSearchParams(location.search).get("q")??"";let chosen="";root2.replaceChildren(h("header",{class:"lead stor\
e"},h("h1",{tabindex:-1},t("store.title")),h("p",{},t("store.lead")),h("div",{class:"search",role:"search"},h("label",{for:searchID,
class:"sr"},t("store.search")),search)),slots,banner,empty,grid,bones,h("div",{class:"center"},more3.element,past2.element));
function onSearch(){update(now()),history.replaceState(history.state,"",search.value?`/?${new URLSearchParams({q:search.
value})}`:"/")}function matches(v2,contains,now2){let of=shop2(v2.shop_id);return contains([v2.title,v2.sub_title,of?.name,
of?.area,of?.address,hour(v2.begin_at,now2)].join(" "))}function slotOf(v2,now2){let state2=stateOf2(v2,now2);return state2===
"ended"?"":v2.begin_at===chosen?chosen:state2!=="upcoming"?NOW:Date.parse(v2.begin_at)-now2<DAY3?v2.begin_at:""}function showSlots(all2,now2){
let starts=[...new Set(all2.map(v2=>slotOf(v2,now2)))].filter(slot=>slot&&slot!==NOW).sort(),found=all2.some(v2=>slotOf(
v2,now2)===NOW)?[NOW,...starts]:starts;chosen&&!found.includes(chosen)&&(chosen=""),show(slots,found.length>1||!loaded);
let names=["",...found];if(slots.dataset.names!==names.join()){slots.dataset.names=names.join();let held=slots.contains(
document.activeElement)?document.activeElement.dataset.slot:null;slots.replaceChildren(...names.map(slot=>h("button",{type:"\
button",class:"quiet","data-slot":slot,onclick:()=>{chosen=slot,update(now())}}))),held!==null&&slots.children[Math.max(
names.indexOf(held),0)].focus()}names.forEach((slot,i2)=>{let words=slot===""?t("store.everything"):slot===NOW?t("store.\
now"):hour(slot,now2);text(slots.children[i2],words),attr(slots.children[i2],"aria-pressed",String(slot===chosen))})}function update(now2,idle2=!1){
let all2=loaded?all():[];text(banner,error?t(error.code==="network"?"store.offline":"store.unavailable"):""),show(banner,
error);let known2=new Set(cards.keys());for(let v2 of all2)known2.has(v2.id)||add(v2,now2);for(let[id,c2]of cards)sale(id)||
(c2.element.remove(),cards.delete(id));showSlots(all2,now2);let contains=search.value.trim()?finder(search.value):null,found=0;
for(let[id,c2]of cards){let v2=sale(id),visible=(!contains||matches(v2,contains,now2))&&(chosen===""||slotOf(v2,now2)===
chosen);show(c2.element,visible),visible&&found++,c2.update(now2,idle2)}let added=()=>[...grid.children].find(li=>!li.hidden&&
!known2.has(li.dataset.voucher));more3.update(hasMore2(),added),past2.update(loaded&&!hasPast(),added);let loading=!loaded;
show(bones,loading),attr(empty,"class",loading?"sr":"empty"),text(empty,found>0||all2.length===0&&error?"":loading?t("lo\
ading"):all2.length>0?t("store.noMatch"):t("store.empty")),show(empty,empty.textContent)}function add(v2,now2){let c2=card2(
v2.id);c2.rank=rank(v2,now2);let next2=[...cards.values()].filter(other=>before(c2.rank,other.rank)).reduce((first,other)=>!first||
before(other.rank,first.rank)?other:first,null);grid.insertBefore(c2.element,next2?.element??null),cards.set(v2.id,c2)}load2();
let ends=[watch2(),keepTime(update)];return()=>{for(let end of ends)end()}}function rank(v2,now2){let state2=stateOf2(v2,
now2),at=Date.parse(state2==="upcoming"?v2.begin_at:v2.end_at);return[["on_sale","upcoming","sold_out","ended"].indexOf(
state2),state2==="ended"?-at:at,-Number(v2.id)]}function before(a2,b2){let i2=a2.findIndex((n2,at)=>n2!==b2[at]);return i2>=
0&&a2[i2]<b2[i2]}var en={brand:"Seckill",nav:"Main",skip:"Skip to content",cancel:"Cancel",back:"Back",more:"Show more",loading:"Loading…",
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
...own.en},zh:{...zh,...own.zh}}}var en2={foot:"A confirmed order is guaranteed. No sale is ever oversold.","account.title":"Your account","account.note":"\
You can download everything that is stored about you, or delete your account.","account.everywhere":"Log out everywhere",
"account.download":"Download my data","account.delete":"Delete my account","account.sure":"Delete your account for good?",
"account.consequences":"Your number and name are removed and you are logged out on all devices. Unpaid orders are cancel\
led. Paid vouchers stay valid, but their codes can no longer be shown here, and you can no longer request a refund: save\
 the codes first.","time.begins":"Starts in","time.ends":"Ends in","time.beginsAt":"Starts","time.endsAt":"Ends","time.e\
nded":"Ended","time.payWithin":"Pay within","time.buyWithin":"Buy within","store.nav":"Sales","store.title":"Flash sales",
"store.lead":"New deals daily. First come, first served.","store.empty":"No sales are scheduled right now.","store.offli\
ne":"No connection. This page may be out of date. Retrying…","store.unavailable":"The server is not responding. Retryi\
ng…","store.retrying":"Retrying…","store.insteadOf":"face value","store.stock":"Claimed","store.claimed":"{claimed} \
claimed","store.claimedLeft":"{claimed} claimed · {left} left","store.reserved":"{n} reserved","store.units":"{n} avail\
able","store.slots":"Start times","store.everything":"All","store.now":"On now","store.search":"Search","store.searchFor":"\
Title, shop, time","store.noMatch":"No sale matches.","store.past":"Show ended sales","store.all":"All sales","sale.prev\
iew":"This is a preview for staff. The button works once the sale is published.","sale.shop":"Shop","sale.address":"Addr\
ess","sale.hours":"Opening hours","sale.begins":"Starts","sale.ends":"Ends","sale.validFrom":"Valid from","sale.validUnt\
il":"Valid until","sale.zone":"Time zone","sale.limit":"Limit per customer","sale.limitOf":"{n}","sale.payWithin":"Time \
to pay","sale.terms":"Terms","sale.after":"What happens next","sale.after.pay":"Buying reserves a unit for you. Pay befo\
re the time shown on your order to keep it.","sale.after.code":"After the payment, your order shows a redemption code. U\
ntil it is used you can have the order refunded.","sale.after.shop":"Show the code in the shop. It works once.","sale.sh\
are":"Share","sale.copied":"Link copied.","ready.login":"Log in early","ready.why":"Log in now, and one tap buys at {at}\
.","remind.calendar":"Add to calendar","remind.notify":"Notify me","remind.set":"Your browser notifies you a minute befo\
re the start, while this page is open.","remind.blocked":"Your browser allows no notifications here. Use the calendar.",
"button.upcoming":"Starts {at}","button.sold_out":"Sold out","button.ended":"Ended","note.upcoming":"This button activat\
es at the start time. No need to refresh.","note.sold_out":"This page updates if a unit comes back.","note.ended":"","bu\
y.now":"Buy now","buy.buying":"Buying…","buy.holdOn":"Your request has been sent. No need to press again.","buy.waitin\
g":"Waiting…","buy.retryIn":"Retrying in {seconds} s…","buy.queued":"In the queue…","buy.queuedNote":"A unit is re\
served for you. Waiting for confirmation.","buy.ahead":"Orders ahead of yours: about {count}.","buy.next":"You are next.",
"buy.slow":"This is taking longer than usual. You need not do anything.","buy.won":"You got it!","buy.lost":"Just missed\
 it","buy.payWithin":"Pay within {left} to keep it.","buy.payInTime":"Pay in time to keep it.","buy.unpaid":"{n} of your\
 orders are unpaid.","buy.limit":"Limit per customer: {n}","buy.held":"You have {held} of {n} allowed.","buy.another":"B\
uy another","buy.paid":"Your order is paid.","buy.already":"You already have an order for this.","buy.pay":"Go to paymen\
t","buy.payShort":"Pay","buy.see":"View order","buy.retry":"Try again","buy.unknown":"Your order may have been placed. T\
ry again to find out; it is never placed twice.","proof.working":"A security check is running. You do not need to do any\
thing.","proof.ready":"Security check complete.","proof.failed":"The security check could not finish. It will be repeate\
d automatically.","waiting.network":"Connection lost.","waiting.rate_limited":"Too many requests.","waiting.overloaded":"\
Demand is very high right now.","waiting.unavailable":"The server is temporarily unavailable.","waiting.internal":"Somet\
hing went wrong on our side.","waiting.order_in_progress":"Your order is being processed.","room.opensIn":"The waiting r\
oom opens in {left}.","room.opensAt":"The waiting room opens on {at}.","room.open":"The waiting room is open.","room.joi\
n":"Join the waiting room","room.joinShort":"Join","room.early":"At the start, the order of everyone in the waiting room\
 is drawn at random. Coming earlier is no advantage.","room.late":"Customers are admitted in turn.","room.lobby":"You ar\
e in the waiting room","room.drawn":"Your position is drawn at the start. Keep this page open.","room.position":"Your po\
sition","room.positionIs":"Your position: {position}","room.ahead":"Ahead of you: {count}.","room.next":"You're next.","\
room.soon":"Estimated wait: under a minute.","room.minutes":"Estimated wait: about {minutes} min.","room.reserved":"All \
units are reserved by customers before you. If one is not bought, it is yours.","room.paused":"The shop has paused admis\
sions. Your place is kept.","room.turn":"Buy within {left}.","room.yours":"It's your turn!","room.soldOut":"A unit may c\
ome back. It goes to those who wait, and your place is kept while this page is open.","room.lost":"Your place is gone.",
"room.lostNote":"Your turn has passed, or you left. You can join again at the end of the line.","room.again":"Join again",
"room.offline":"Connection lost. Your place is kept. Retrying…","room.leave":"Leave the waiting room","room.sure":"Lea\
ve the waiting room? You lose your place.","room.badge":"No. {position}","room.badgeTurn":"Your turn!","room.badgeLobby":"\
Waiting","orders.title":"My orders","orders.one":"Order details","orders.all":"All orders","orders.guest":"Log in to see\
 your orders.","orders.none":"You have no orders yet.","orders.missing":"Order not found.","orders.shop":"Browse sales",
"orders.voucher":"Voucher {id}","orders.number":"No. {id}","orders.due":"Pay within {left}, or the order is cancelled.",
"orders.late":"The payment deadline has passed. The order is being closed.","orders.expired":"Payment time ran out ({at}\
). A payment that arrives later is returned.","orders.cancelled":"Cancelled on {at}. A payment that arrives later is ret\
urned.","orders.again":"Buy again","orders.paying":"Confirming the payment…","orders.refunding":"Your refund is being \
processed.","orders.redeemed":"Used on {at}.","orders.refunded":"Refunded on {at}.","orders.code":"Redemption code","ord\
ers.show":"Show it at the shop. It can be used once.","orders.showCode":"Show code","orders.hideCode":"Hide code","order\
s.qr":"QR code for {code}","pay.title":"Confirm payment","pay.total":"Total","pay.sandbox":"Test payment (sandbox): no m\
oney moves, and no card or account is needed.","pay.provider":"The amount is charged by the shop's payment provider.","p\
ay.now":"Pay {amount}","do.pay":"Pay now","do.cancel":"Cancel order","do.refund":"Refund","confirm.cancel":"Cancel this \
order? It goes back on sale immediately.","confirm.refund":"Refund this order? The code will stop working."},zh2={foot:"\
下单成功即锁定名额，绝不超卖。","account.title":"我的账号","account.note":"你可以下载我们保存的全部个人数据，也可以注销账号。",
"account.everywhere":"退出所有设备","account.download":"下载我的数据","account.delete":"注销账号","accou\
nt.sure":"确定要永久注销账号吗？","account.consequences":"注销后将删除手机号和昵称，所有设备都会退出登录，未支付的订单会被取消。已支付的券仍可使用，但无法再查看\
券码，也不能再申请退款，请先保存券码。","time.begins":"距开始","time.ends":"距结束","time.begin\
sAt":"开始于","time.endsAt":"结束于","time.ended":"结束于","time.payWithin":"支付剩余","time.buyWithin":"下单\
剩余","store.nav":"抢购","store.title":"限时秒杀","store.lead":"每日上新，准点开抢。","store.empty":"暂\
时没有秒杀活动。","store.offline":"网络已断开，页面内容可能已过时，正在重试…","store.unava\
ilable":"服务暂时无响应，正在重试…","store.retrying":"正在重试…","store.insteadOf":"面值","store.s\
tock":"已抢比例","store.claimed":"已抢 {claimed}","store.claimedLeft":"已抢 {claimed} · 剩 {left} 份","store.\
reserved":"{n} 份已保留","store.units":"限量 {n} 份","store.slots":"开抢场次","store.everything":"全部","st\
ore.now":"抢购中","store.search":"搜索","store.searchFor":"商品、店铺、时间","store.noMatch":"没有符合条件的活动。",
"store.past":"查看已结束的活动","store.all":"全部秒杀","sale.preview":"此页仅供工作人员预览，活动发布后方可购买。",
"sale.shop":"店铺","sale.address":"地址","sale.hours":"营业时间","sale.begins":"开始时间","sale.ends":"结束时间",
"sale.validFrom":"生效时间","sale.validUntil":"有效期至","sale.zone":"时区","sale.limit":"每人限购","sale.\
limitOf":"{n} 份","sale.payWithin":"支付时限","sale.terms":"使用规则","sale.after":"购买流程","sale.after.p\
ay":"抢购成功后为你锁定一份，请在订单显示的时限内支付，逾期将自动取消。","sale.after.co\
de":"支付后，订单会显示核销码。未使用前可以申请退款。","sale.after.shop":"到店出示核销码，仅可使用一次。",
"sale.share":"分享","sale.copied":"链接已复制。","ready.login":"提前登录","ready.why":"登录后，{at} 准点一键抢。",
"remind.calendar":"加入日历","remind.notify":"开抢提醒","remind.set":"开抢前一分钟将弹出提醒，请不要关闭本页面。",
"remind.blocked":"浏览器未允许通知，可改用日历提醒。","button.upcoming":"{at} 开抢","button.sold_out":"\
已抢光","button.ended":"已结束","note.upcoming":"到点后按钮自动亮起，无需刷新。","note.sold_out":"如\
有退回，页面会自动恢复抢购。","note.ended":"","buy.now":"立即抢购","buy.buying":"抢购中…","buy.ho\
ldOn":"请求已提交，无需重复点击。","buy.waiting":"等待中…","buy.retryIn":"{seconds} 秒后自动重试。",
"buy.queued":"排队中…","buy.queuedNote":"已为你锁定一份，正在等待确认。","buy.ahead":"前面约有 {count} 个\
订单。","buy.next":"马上轮到你。","buy.slow":"处理时间比平时长，请耐心等待，无需任何操作。",
"buy.won":"抢到了！","buy.lost":"手慢了，没抢到","buy.payWithin":"请在 {left} 内完成支付。","buy.payI\
nTime":"请尽快完成支付。","buy.unpaid":"你有 {n} 个订单待支付。","buy.limit":"每人限购 {n} 份","bu\
y.held":"已购 {held} 份，每人限购 {n} 份。","buy.another":"再抢一份","buy.paid":"订单已支付。","buy.\
already":"你已抢购过该商品。","buy.pay":"去支付","buy.payShort":"去支付","buy.see":"查看订单","buy.re\
try":"再试一次","buy.unknown":"暂时无法确认是否下单成功；再试一次即可确认，不会重复下单。",
"proof.working":"正在自动进行安全检测，无需任何操作。","proof.ready":"安全检测已完成。","proof\
.failed":"安全检测未完成，稍后将自动重试。","waiting.network":"网络已断开。","waiting.rate_limited":"\
请求太频繁。","waiting.overloaded":"当前抢购人数过多。","waiting.unavailable":"服务暂时不可用。",
"waiting.internal":"系统出了点问题。","waiting.order_in_progress":"你的订单正在处理中。","room.opensIn":"\
等候室将在 {left} 后开放。","room.opensAt":"等候室于 {at} 开放。","room.open":"等候室已开放。","r\
oom.join":"进入等候室","room.joinShort":"去排队","room.early":"开始时随机排定等候室内所有人的次序，早到并无优势。",
"room.late":"按次序依次放行。","room.lobby":"已进入等候室","room.drawn":"开始时随机排定你的位次，请不要关闭页面。",
"room.position":"当前排队位次","room.positionIs":"你排在第 {position} 位","room.ahead":"前面还有 {count} 人。",
"room.next":"下一个就是你。","room.soon":"预计不到一分钟。","room.minutes":"预计还需约 {minutes} 分钟。",
"room.reserved":"剩余名额都已为前面的用户保留。如有人未下单，就轮到你。","room.paused":"商家已暂停\
放行，排队位次会保留。","room.turn":"请在 {left} 内下单。","room.yours":"轮到你了！","room.soldOut":"\
如有名额退回，将优先给排队的用户；页面打开期间为你保留排队位次。","room.lost":"排队位次已失效。",
"room.lostNote":"已错过轮次，或已离开。可以重新排到队尾。","room.again":"重新排队","room.offline":"\
网络已断开，排队位次仍为你保留，正在重试…","room.leave":"离开等候室","room.sure":"确定离开等候室吗？离开\
后排队位次不再保留。","room.badge":"第 {position} 位","room.badgeTurn":"轮到你了！","room.badgeLobby":"\
等候中","orders.title":"我的订单","orders.one":"订单详情","orders.all":"全部订单","orders.guest":"登录后查看你的\
订单。","orders.none":"还没有订单。","orders.missing":"未找到该订单。","orders.shop":"去抢购","orders\
.voucher":"优惠券 {id}","orders.number":"订单号 {id}","orders.due":"请在 {left} 内完成支付，逾期订单将自动取消。",
"orders.late":"已超过支付时限，订单正在关闭。","orders.expired":"未在 {at} 前支付，订单已取消。之后到账的款项会原路退回。",
"orders.cancelled":"已于 {at} 取消。之后到账的款项会原路退回。","orders.again":"重新抢购","orders.\
paying":"正在确认支付…","orders.refunding":"退款处理中。","orders.redeemed":"已于 {at} 使用。","order\
s.refunded":"已于 {at} 退款。","orders.code":"核销码","orders.show":"到店出示，仅可使用一次。","orde\
rs.showCode":"出示核销码","orders.hideCode":"收起核销码","orders.qr":"核销码 {code} 的二维码","pay.titl\
e":"确认支付","pay.total":"应付金额","pay.sandbox":"测试支付（沙箱）：不会产生真实扣款，无需银行卡或账户。",
"pay.provider":"款项由商家的支付服务商收取。","pay.now":"支付 {amount}","do.pay":"立即支付","do.canc\
el":"取消订单","do.refund":"退款","confirm.cancel":"确定取消订单吗？取消后名额会立即重新开售。",
"confirm.refund":"确定退款吗？退款后核销码将失效。"},texts_default=withOwn({en:en2,zh:zh2});start4();start5();start({texts:texts_default,pages:[{path:/^\/$/,title:"store.title",mount:mount3,nav:"/"},{path:/^\/sales\/([^/]+)$/,
title,mount:mount2,nav:"/"},{path:/^\/orders$/,title:"orders.title",mount,nav:"/orders"},{path:/^\/orders\/([^/]+)$/,title:"\
orders.one",mount,nav:"/orders"}],missing:{title:"missing.title",mount:missing2("/","store.all")},links:user2=>[link("/",
"store.nav"),link("/orders","orders.title","orders"),user2?.permissions?link("/console","console","console"):""],foot:()=>t(
"foot"),badge:badge2,account:account2});onChange3(showTitle);start3();start2();session.start();
